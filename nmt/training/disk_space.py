"""Whether the disk has room for all that a run will leave, asked before its first update."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from nmt.config import TrainingConfig
from nmt.errors import NMTError
from nmt.files import megabytes
from nmt.training.checkpoint import STATES_KEPT
from nmt.training.optimizer import Optimizer
from nmt.training.run_folder import RunFolder


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
