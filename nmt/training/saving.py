"""Saving a run: checkpoints, training states, the best models, and enough disk space for them.

A checkpoint or state is copied in memory, and a thread writes the copy while training goes on. If a
file cannot be written, earlier files stay, the log and status.json report it, and the next save
tries again. At the end of a run, when nothing would try again, it is an error.

`Need` refuses a disk that is too small before the first update.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.config import TrainingConfig
from nmt.distributed import Ranks, from_system
from nmt.errors import NMTError
from nmt.files import link_or_copy, megabytes
from nmt.models.model_file import ModelCard, write_model
from nmt.runs import checkpoint
from nmt.runs.checkpoint import BEST, CHECKPOINT, STATES_KEPT, RunState
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
    def of(cls, config: TrainingConfig, optimizer: Optimizer, card: ModelCard) -> Need:
        """Return the need of a run with these settings, vectors and vocabularies."""
        # A new file is written before an old one is removed. Until the next state is written, the
        # best models of the last one stay too. last.safetensors and best.safetensors are links, or
        # copies if the disk has no links.
        checkpoints = min(config.keep_last + 1, config.max_updates // config.save_every)
        best = min(2 * config.keep_best + 1, config.max_updates // config.validate_every)
        return cls(
            states=STATES_KEPT + 1,
            state_bytes=sum(vector.nbytes for vector in optimizer.vectors().values()),
            models=checkpoints + best + 2,
            model_bytes=optimizer.weights.master.nbytes + card.vocabulary_bytes,
        )

    @property
    def bytes(self) -> int:
        """The total."""
        return self.states * self.state_bytes + self.models * self.model_bytes

    def check(self, run: RunFolder) -> None:
        """Refuse a disk without that much room; the run's checkpoints count as free.

        Raises:
            NMTError: with the space that is needed and free.
        """
        files = [
            path.stat()
            for folder in (run.path, run.checkpoints)
            for path in folder.iterdir()
            if path.suffix in (".safetensors", ".state")
        ]
        written = {(file.st_dev, file.st_ino): file.st_size for file in files}  # links once
        missing = self.bytes - sum(written.values())
        free = shutil.disk_usage(run.checkpoints).free
        if free < missing:
            raise NMTError(
                f"{run.path}: the disk has {megabytes(free)} free, but the run needs "
                f"{megabytes(missing)} for {self.states} training states of "
                f"{megabytes(self.state_bytes)} and {self.models} models of "
                f"{megabytes(self.model_bytes)}; make room, lower keep_last or keep_best, or "
                "choose another --out"
            )


class Saver:
    """Writes a run's weights and state; rank 0 writes, and all ranks learn the result."""

    def __init__(
        self, run: RunFolder, ranks: Ranks, config: TrainingConfig, optimizer: Optimizer
    ) -> None:
        self.saved: RunState | None = None
        """The newest state that was given to be saved; the same on all ranks."""
        self.written: RunState | None = None
        """The newest state in the run folder, on rank 0."""
        self._run = run
        self._ranks = ranks
        self._config = config
        self._optimizer = optimizer
        self._last = run.path / "last.safetensors"
        self._tried_at = time.monotonic()
        self._failed = False
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None
        self._copies: dict[str, Tensor] = {}

    def resume_from(self, state: RunState | None) -> None:
        """Take note of the newest state in the run folder, if there is one."""
        self.saved = self.written = state

    def is_overdue(self) -> bool:
        """Return whether a safety save is due; only rank 0's clock counts, as ranks must agree."""
        waited = time.monotonic() - self._tried_at
        return self._ranks.is_first and waited > 60 * self._config.save_minutes

    def save_checkpoint(self, state: RunState, card: ModelCard) -> None:
        """Write a checkpoint for averaging, and the training state."""

        def write(vectors: Mapping[str, Tensor]) -> None:
            path = checkpoint.path_of(self._run, CHECKPOINT, state.update)
            kept = vectors.get("ema", vectors["weights"])
            write_model(path, card, self._optimizer.weights.named(kept))
            link_or_copy(path, self._last)
            self._write_state(state, vectors)

        self._save(state, write)

    def save_state(self, state: RunState) -> None:
        """Write the training state, from which a stopped run resumes."""
        self._save(state, lambda vectors: self._write_state(state, vectors))

    def save_best(self, state: RunState, card: ModelCard) -> bool:
        """Write the present weights among the best, and as best.safetensors if they are the best.

        Returns:
            Whether they could be written.
        """
        best = state.best_updates

        def write() -> None:
            path = checkpoint.path_of(self._run, BEST, state.update)
            write_model(path, card, self._optimizer.kept_parameters)
            if best[0] == state.update:
                link_or_copy(path, self._run.path / "best.safetensors")
            # A run that is killed now resumes from the saved state, which refers to its own.
            kept = self.written.best_updates if self.written else []
            checkpoint.keep_only(self._run, BEST, best + kept)

        try:
            with self._ranks.together():
                if self._ranks.is_first:
                    self.wait()
                    write()
        except NMTError as error:
            self._tell(state, f"not saved at update {state.update:,}: {error}")
            return False
        return True

    def save_at_the_end(self, state: RunState, card: ModelCard) -> None:
        """Write the training state and the last model, unless they are already there.

        Raises:
            NMTError: if they cannot be written.
        """
        with self._ranks.together():  # so that no rank leaves before everything is saved
            if self._ranks.is_first:
                self.wait()
                if self.written != state:
                    self._write_state(state, self._optimizer.vectors())
                if checkpoint.update_behind(self._last) != state.update:
                    write_model(self._last, card, self._optimizer.kept_parameters)
        self.saved = self.written = state

    def wait(self) -> None:
        """Wait until everything that was given to be saved is written, or has failed."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _write_state(self, state: RunState, vectors: Mapping[str, Tensor]) -> None:
        checkpoint.write_state(self._run, state, vectors)
        # After a bad update we remove nothing: it might be the only sound state to go back to.
        if not vectors["guard"][2]:
            checkpoint.prune(self._run, state, keep_last=self._config.keep_last)

    def _save(self, state: RunState, write: Callable[[Mapping[str, Tensor]], None]) -> None:
        """Let rank 0's thread write a copy of the optimizer's vectors."""
        if self._ranks.is_first:
            self.wait()  # for the write before, which uses the same copies
            self._copy()
            self._writing = self._thread.submit(self._write, state, write)
        self.saved = state
        self._tried_at = time.monotonic()

    def _copy(self) -> None:
        vectors = self._optimizer.vectors()
        if not self._copies:
            self._copies = {
                name: torch.empty_like(vector, device="cpu", pin_memory=vector.is_cuda)
                for name, vector in vectors.items()
            }
        for name, vector in vectors.items():
            self._copies[name].copy_(vector, non_blocking=True)
        if self._optimizer.weights.master.is_cuda:
            torch.cuda.current_stream().synchronize()

    def _write(self, state: RunState, write: Callable[[Mapping[str, Tensor]], None]) -> None:
        """Write the copies; if that fails, warn and let training continue."""
        try:
            write(self._copies)
        except (NMTError, OSError) as error:
            self._tell(state, f"not saved at update {state.update:,}: {from_system(error)}")
            return
        self.written = state
        if self._failed:
            self._tell(state, "")

    def _tell(self, state: RunState, problem: str) -> None:
        self._failed = bool(problem)
        if not self._ranks.is_first:
            return
        if problem:
            self._run.warn(f"{problem}; training continues, and the next save tries again")
            self._run.record({"kind": "event", "update": state.update, "not_saved": problem})
        with contextlib.suppress(OSError):  # the disk may have no room for this either
            self._run.write_status("running", state.update, problem)
