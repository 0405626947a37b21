"""Saving a run: checkpoints, training states, the best models, and life with a full disk.

A file that cannot be written while training goes on costs that file alone: what was saved before
stays, a warning tells of it, status.json too, and the next save tries again. At the end of a run,
when nothing would try again, it is an error.

Whether the disk has room for all that a run will leave, asked before its first update.
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
    """The most that a run's checkpoints take at any time."""

    states: int
    state_bytes: int  # of each
    models: int
    model_bytes: int

    @classmethod
    def of(cls, config: TrainingConfig, optimizer: Optimizer, *, vocabulary_bytes: int) -> Need:
        """Return what a run with these settings and vectors needs.

        Args:
            config: how often it saves, and how much it keeps.
            optimizer: all vectors of a training state; they may be without values.
            vocabulary_bytes: of the SentencePiece models that stand in each model file.
        """
        # A file comes before another goes. Until the next state is written, the best of the last
        # one stay beside the present ones. The last model and the best are links, or files of
        # their own.
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
        """All of it."""
        return self.states * self.state_bytes + self.models * self.model_bytes


def check_space(run: RunFolder, need: Need) -> None:
    """Refuse a disk that has no room for the run's checkpoints beside those that are there.

    Raises:
        NMTError: saying what is needed, what is free and what to do.
    """
    missing = need.bytes - _size_of_checkpoints(run)
    free = shutil.disk_usage(run.checkpoints).free
    if free < missing:
        raise NMTError(
            f"{run.path}: the disk has {megabytes(free)} free, and the run needs "
            f"{megabytes(missing)} for {need.states} training states of "
            f"{megabytes(need.state_bytes)} and {need.models} models of "
            f"{megabytes(need.model_bytes)}; make room, lower keep_last or keep_best, or choose "
            "another --out"
        )


def _size_of_checkpoints(run: RunFolder) -> int:
    """Return the bytes of all checkpoints, links counted once."""
    files = [
        path.stat()
        for folder in (run.path, run.checkpoints)
        for path in folder.iterdir()
        if path.suffix in (".safetensors", ".state")
    ]
    return sum({(file.st_dev, file.st_ino): file.st_size for file in files}.values())


class Saver:
    """Writes a run's weights and state; rank 0 writes, and all ranks know how it went."""

    def __init__(
        self,
        run: RunFolder,
        ranks: Ranks,
        config: TrainingConfig,
        optimizer: Optimizer,
        progress: Progress,
    ) -> None:
        self.saved = progress.update  # the update whose state was written last
        self._outdated = False
        self._run = run
        self._ranks = ranks
        self._config = config
        self._optimizer = optimizer
        self._progress = progress
        self._last = run.path / "last.safetensors"
        self._tried_at = time.monotonic()
        self._best_of_state = self._best()  # which the newest state refers to
        self._failed = False

    def is_overdue(self) -> bool:
        """Tell whether the clock asks for a safety save, by rank 0's: ranks must do the same."""
        waited = time.monotonic() - self._tried_at
        return self._ranks.is_first and waited > 60 * self._config.save_minutes

    def outdate(self) -> None:
        """Note that a state of the present update, if there is one, has missed a validation."""
        self._outdated = True

    def is_current(self) -> bool:
        """Tell whether there is nothing to save."""
        return self.saved == self._progress.update and not self._outdated

    def save_checkpoint(self, card: ModelCard) -> None:
        """Write a checkpoint that averaging may use, and the training state."""

        def write() -> None:
            path = checkpoint.update_path(self._run, self._progress.update)
            write_model(path, card, self._optimizer.kept_parameters)
            link_or_copy(path, self._last)
            self._write_state()

        self._save(write)

    def save_state(self) -> None:
        """Write the training state, from which a stopped run goes on."""
        self._save(self._write_state)

    def save_best(self, card: ModelCard, *, is_best: bool) -> bool:
        """Write the present weights among the best; publish them where they are the best of all.

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
        """Write the training state and the last model, where they are not there yet.

        Raises:
            NMTError: if they cannot be written.
        """
        update = self._progress.update
        with self._ranks.together():  # and so no rank goes before all is saved
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
        # Amid bad updates nothing goes, or it might be the one sound state to go back to.
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
        """Write on rank 0; where that fails, say so and let the run go on."""
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
            self._run.warn(f"{problem}; training goes on, and the next save tries again")
            self._run.record(
                {"kind": "event", "update": self._progress.update, "not_saved": problem}
            )
        with contextlib.suppress(OSError):  # there may be no room for this either
            self._run.write_status("running", self._progress.update, problem)
