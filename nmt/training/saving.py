"""Saving a run: checkpoints, training states, the best models, and enough disk space for them.

What is saved is copied in memory, and a thread writes the copy while training goes on. Checkpoints
and best models are a third of a training state or less. States are written by the clock, because a
run that was killed makes again what came after its newest state.

If a file cannot be written, earlier files stay, the log and status.json report it, and the next
checkpoint tries again, with the state. At the end of a run, when nothing would try again, it is an
error.

`DiskBudget` refuses a disk that is too small before the first update.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from nmt.errors import NMTError
from nmt.models.model_file import ModelCard, write_model
from nmt.runs import checkpoint
from nmt.runs.checkpoint import BEST, CHECKPOINT, STATE, STATES_KEPT, Best, RunState
from nmt.runs.run_folder import RunFolder
from nmt.system.distributed import Ranks, from_system
from nmt.system.files import link_or_copy, megabytes
from nmt.training.low_rank import merged
from nmt.training.optimizer import Optimizer


@dataclass(frozen=True)
class DiskBudget:
    """The largest disk space that a run's checkpoints take at any time."""

    states = STATES_KEPT + 1  # a new file is written before an old one is removed
    state_bytes: int  # of one state
    models: int
    model_bytes: int  # of one model file

    @classmethod
    def of(cls, optimizer: Optimizer, card: ModelCard) -> DiskBudget:
        """Return the budget of a run with these values, vectors and vocabularies."""
        config = optimizer.config
        # Until the next state is written, the best models of the last one stay too.
        # last.safetensors and best.safetensors are links, or copies if the disk has no links.
        checkpoints = min(config.keep_last + 1, config.max_updates // config.save_every)
        validations = math.ceil(config.max_updates / config.validate_every)
        best = min(2 * config.keep_best + 1, validations)
        return cls(
            state_bytes=sum(vector.nbytes for vector in optimizer.vectors().values()),
            models=checkpoints + best + 2,
            model_bytes=4 * optimizer.weights.count + card.vocabulary_bytes,  # in fp32
        )

    @property
    def bytes(self) -> int:
        """The total."""
        return self.states * self.state_bytes + self.models * self.model_bytes

    def check(self, run: RunFolder) -> None:
        """Refuse a disk without that much room; the run's checkpoints count as free.

        NMTError if there is less, with the space that is needed and free.
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

    def __init__(self, run: RunFolder, ranks: Ranks, optimizer: Optimizer) -> None:
        self.saved: RunState | None = None
        """The newest state that was given to be saved; the same on all ranks."""
        self.written: RunState | None = None
        """The newest state in the run folder, on rank 0."""
        self._run = run
        self._ranks = ranks
        self._config = optimizer.config
        self._optimizer = optimizer
        self._last = run.path / "last.safetensors"
        self._tried_at = time.monotonic()
        self._failed = False
        self._best: Best = ()  # before the newest best model, which may fail
        self._best_failed = False
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None
        self._copies: dict[str, Tensor] = {}

    def resume_from(self, state: RunState | None) -> None:
        """Take note of the newest state in the run folder, if there is one."""
        self.saved = self.written = state
        self._best, self._best_failed = state.best if state else (), False

    def is_due(self, update: int) -> bool:
        """Return whether to save the state after this update; only rank 0 knows."""
        by_clock = time.monotonic() - self._tried_at > 60 * self._config.save_minutes
        again = self._failed and update % self._config.save_every == 0
        return self._ranks.is_first and (by_clock or again)

    def confirmed(self, state: RunState) -> RunState:
        """Return a state without its newest best model if that could not be written.

        All ranks take part.
        """
        self.wait()
        if self._ranks.any(self._best_failed):
            state = replace(state, best=self._best)
        self._best, self._best_failed = state.best, False
        return state

    def save(
        self, state: RunState, card: ModelCard, *, best: bool, checkpoint: bool, whole: bool
    ) -> None:
        """Let rank 0's thread write a copy of the weights or of everything.

        state: confirmed, and perhaps validated since.
        card: of the model.
        best: write the model as one of the best of `state`.
        checkpoint: write the model as a checkpoint for averaging.
        whole: write the training state.
        """
        self.wait()  # for the write before, which uses the same copies
        self._copy(self._optimizer.vectors() if whole else [self._optimizer.eval_name])
        if self._ranks.is_first:
            self._writing = self._thread.submit(
                self._write, state, card, best=best, checkpoint=checkpoint, whole=whole
            )
        if whole:
            self.saved = state
            self._tried_at = time.monotonic()

    def save_at_the_end(self, state: RunState, card: ModelCard) -> None:
        """Write the training state and the last model, unless they are already there.

        NMTError if they cannot be written.
        """
        state = self.confirmed(state)
        self._copy(self._optimizer.vectors())
        with self._ranks.raise_on_all_ranks():  # so that no rank leaves before everything is saved
            if self._ranks.is_first:
                # The state comes last: a run that is killed before it makes the model again.
                last = checkpoint.card_of_file(self._last)
                # One from before a validation that was cut short has no metrics.
                has_metrics = last is not None and bool(last.valid or not card.valid)
                if last is None or last.update != card.update or not has_metrics:
                    self._write_model(self._last, card)
                if self.written != state:
                    self._write_state(state)
        self.saved = state

    def wait(self) -> None:
        """Wait until everything that was given to be saved is written, or has failed."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _copy(self, names: Iterable[str]) -> None:
        """Copy vectors on rank 0, which writes them."""
        if not self._ranks.is_first:
            return
        vectors = self._optimizer.vectors()
        for name in names:
            vector = vectors[name]
            if name not in self._copies:
                self._copies[name] = torch.empty_like(
                    vector, device="cpu", pin_memory=vector.is_cuda
                )
            self._copies[name].copy_(vector, non_blocking=True)
        if self._optimizer.weights.master.is_cuda:
            torch.cuda.current_stream().synchronize()

    def _write(
        self, state: RunState, card: ModelCard, *, best: bool, checkpoint: bool, whole: bool
    ) -> None:
        """Write the copies; if that fails, warn and let training continue."""
        self._best_failed = best  # until it is written
        try:
            if best:
                self._write_best(state, card)
                self._best_failed = False
            if checkpoint:
                self._write_checkpoint(state, card, is_best=best)
            if whole:
                self._write_state(state)
        except (NMTError, OSError) as error:
            problem = f"not saved at update {state.update:,}: {from_system(error)}"
            self._report_problem(state, problem)
            return
        finally:
            if not self._optimizer.weights.master.is_cuda:  # else they are pinned, which takes long
                self._copies.clear()
        if whole and self._failed:
            self._report_problem(state, "")

    def _write_best(self, state: RunState, card: ModelCard) -> None:
        path = checkpoint.path_of(self._run, BEST, state.update)
        self._write_model(path, card)
        if state.best_updates[0] == state.update:
            link_or_copy(path, self._run.path / "best.safetensors")
        # A run that is killed now resumes from the written state, which refers to its own.
        referred_to = self.written.best_updates if self.written else []
        checkpoint.keep_only(self._run, BEST, state.best_updates + referred_to)

    def _write_checkpoint(self, state: RunState, card: ModelCard, *, is_best: bool) -> None:
        path = checkpoint.path_of(self._run, CHECKPOINT, state.update)
        if is_best:
            link_or_copy(checkpoint.path_of(self._run, BEST, state.update), path)
        else:
            self._write_model(path, card)
        link_or_copy(path, self._last)
        newest = checkpoint.updates_of(self._run, CHECKPOINT)[-self._config.keep_last :]
        checkpoint.keep_only(self._run, CHECKPOINT, newest)

    def _write_model(self, path: Path, card: ModelCard) -> None:
        eval_weights = self._copies[self._optimizer.eval_name]
        write_model(path, card, merged(self._optimizer.weights.named(eval_weights)))

    def _write_state(self, state: RunState) -> None:
        checkpoint.write_state(self._run, state, self._copies)
        self.written = state
        newest = checkpoint.updates_of(self._run, STATE)[-STATES_KEPT:]
        checkpoint.keep_only(self._run, STATE, newest)
        checkpoint.keep_only(self._run, BEST, state.best_updates)

    def _report_problem(self, state: RunState, problem: str) -> None:
        self._failed = bool(problem)
        if problem:
            self._run.warn(f"{problem}; training continues, and the next checkpoint tries again")
            self._run.record({"kind": "event", "update": state.update, "not_saved": problem})
        with contextlib.suppress(OSError):  # the disk may have no room for this either
            self._run.write_status("running", state.update, problem)
