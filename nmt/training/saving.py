"""Saving a run: checkpoints, training states, the best models, and enough disk space for them.

If a file cannot be written during training, earlier files stay, the log and status.json report it,
and the next save tries again. At the end of a run, when nothing would try again, it is an error.

`check_space` refuses a disk that is too small before the first update.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass

from nmt.config import TrainingConfig
from nmt.distributed import Ranks
from nmt.errors import NMTError
from nmt.files import link_or_copy, megabytes
from nmt.models.model_file import ModelCard, write_model
from nmt.runs import checkpoint
from nmt.runs.checkpoint import STATES_KEPT, Progress
from nmt.runs.run_folder import RunFolder
from nmt.training.optimizer import Optimizer


@dataclass(frozen=True)
class Need:
    """The largest disk space that a run's checkpoints take at any time."""

    states: int
    state_bytes: int  # of one state
    models: int
    model_bytes: int  # of one model file

    @classmethod
    def of(cls, config: TrainingConfig, optimizer: Optimizer, *, vocabulary_bytes: int) -> Need:
        """Return the need of a run with these settings and vectors.

        Args:
            config: how often it saves, and how much it keeps.
            optimizer: the vectors of a training state; they may be on the meta device.
            vocabulary_bytes: size of the SentencePiece models in each model file.
        """
        # A new file is written before an old one is removed. Until the next state is written, the
        # best models of the last one stay too. last.safetensors and best.safetensors are links, or
        # copies if the disk has no links.
        checkpoints = min(config.keep_last + 1, config.max_updates // config.save_every)
        best = min(2 * config.keep_best + 1, config.max_updates // config.validate_every)
        return cls(
            states=STATES_KEPT + 1,
            state_bytes=sum(vector.nbytes for vector in optimizer.vectors().values()),
            models=checkpoints + best + 2,
            model_bytes=optimizer.weights.master.nbytes + vocabulary_bytes,
        )

    @property
    def bytes(self) -> int:
        """The total."""
        return self.states * self.state_bytes + self.models * self.model_bytes


def check_space(run: RunFolder, need: Need) -> None:
    """Refuse a disk without room for the run's checkpoints; existing ones count as free.

    Raises:
        NMTError: with the space that is needed and free.
    """
    missing = need.bytes - _size_of_checkpoints(run)
    free = shutil.disk_usage(run.checkpoints).free
    if free < missing:
        raise NMTError(
            f"{run.path}: the disk has {megabytes(free)} free, but the run needs "
            f"{megabytes(missing)} for {need.states} training states of "
            f"{megabytes(need.state_bytes)} and {need.models} models of "
            f"{megabytes(need.model_bytes)}; make room, lower keep_last or keep_best, or choose "
            "another --out"
        )


def _size_of_checkpoints(run: RunFolder) -> int:
    """Return the bytes of all checkpoints, counting links once."""
    files = [
        path.stat()
        for folder in (run.path, run.checkpoints)
        for path in folder.iterdir()
        if path.suffix in (".safetensors", ".state")
    ]
    return sum({(file.st_dev, file.st_ino): file.st_size for file in files}.values())


class Saver:
    """Writes a run's weights and state; rank 0 writes, and all ranks learn the result."""

    def __init__(
        self,
        run: RunFolder,
        ranks: Ranks,
        config: TrainingConfig,
        optimizer: Optimizer,
        progress: Progress,
    ) -> None:
        self.saved = progress.update  # the update of the last written state
        self._outdated = False
        self._run = run
        self._ranks = ranks
        self._config = config
        self._optimizer = optimizer
        self._progress = progress
        self._last = run.path / "last.safetensors"
        self._tried_at = time.monotonic()
        self._best_of_state = self._best()  # the best models that the newest state refers to
        self._failed = False

    def is_overdue(self) -> bool:
        """Return whether a safety save is due; only rank 0's clock counts, as ranks must agree."""
        waited = time.monotonic() - self._tried_at
        return self._ranks.is_first and waited > 60 * self._config.save_minutes

    def outdate(self) -> None:
        """Mark the state of the present update as out of date, for example after a validation."""
        self._outdated = True

    def is_current(self) -> bool:
        """Return whether there is nothing to save."""
        return self.saved == self._progress.update and not self._outdated

    def save_checkpoint(self, card: ModelCard) -> None:
        """Write a checkpoint for averaging, and the training state."""

        def write() -> None:
            path = checkpoint.update_path(self._run, self._progress.update)
            write_model(path, card, self._optimizer.kept_parameters)
            link_or_copy(path, self._last)
            self._write_state()

        self._save(write)

    def save_state(self) -> None:
        """Write the training state, from which a stopped run resumes."""
        self._save(self._write_state)

    def save_best(self, card: ModelCard, *, is_best: bool) -> bool:
        """Write the present weights among the best, and as best.safetensors if they are the best.

        Returns:
            Whether they could be written.
        """

        def write() -> None:
            path = checkpoint.best_path(self._run, self._progress.update)
            write_model(path, card, self._optimizer.kept_parameters)
            if is_best:
                link_or_copy(path, self._run.path / "best.safetensors")
            checkpoint.prune_best(self._run, self._best() | self._best_of_state)

        return self._attempt(write)

    def save_at_the_end(self, card: ModelCard) -> None:
        """Write the training state and the last model, unless they are already there.

        Raises:
            NMTError: if they cannot be written.
        """
        update = self._progress.update
        with self._ranks.together():  # so that no rank leaves before everything is saved
            if self._ranks.is_first:
                if not self.is_current():
                    self._write_state()
                if checkpoint.update_behind(self._last) != update:
                    write_model(self._last, card, self._optimizer.kept_parameters)
        self.saved, self._outdated = update, False

    def _best(self) -> set[int]:
        return {update for _, update in self._progress.best}

    def _write_state(self) -> None:
        checkpoint.write_state(self._run, self._progress, self._optimizer.vectors())
        # After a bad update we remove nothing: it might be the only sound state to go back to.
        if not self._optimizer.guard.state[2]:
            checkpoint.prune(self._run, self._progress, keep_last=self._config.keep_last)
        self._best_of_state = self._best()

    def _save(self, write: Callable[[], None]) -> None:
        if self._attempt(write):
            self.saved, self._outdated = self._progress.update, False
            if self._failed:
                self._tell("")
        self._tried_at = time.monotonic()

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Write on rank 0; if that fails, warn and let training continue."""
        try:
            with self._ranks.together():
                if self._ranks.is_first:
                    write()
        except NMTError as error:
            self._tell(f"not saved at update {self._progress.update:,}: {error}")
            return False
        return True

    def _tell(self, problem: str) -> None:
        self._failed = bool(problem)
        if not self._ranks.is_first:
            return
        if problem:
            self._run.warn(f"{problem}; training continues, and the next save tries again")
            self._run.record(
                {"kind": "event", "update": self._progress.update, "not_saved": problem}
            )
        with contextlib.suppress(OSError):  # the disk may have no room for this either
            self._run.write_status("running", self._progress.update, problem)
