"""Whether the disk has room for all that a run will leave, asked before its first update."""

from __future__ import annotations

import shutil

from nmt.config import TrainingConfig
from nmt.errors import NMTError
from nmt.files import megabytes
from nmt.models.model_file import ModelCard
from nmt.training.checkpoint import STATES_KEPT
from nmt.training.optimizer import Optimizer
from nmt.training.run_folder import RunFolder


def check_space(
    run: RunFolder, config: TrainingConfig, card: ModelCard, optimizer: Optimizer
) -> None:
    """Refuse a disk that has no room for the run's checkpoints beside those that are there.

    Raises:
        NMTError: saying what is needed, what is free and what to do.
    """
    state = sum(vector.nbytes for vector in optimizer.vectors().values())
    vocabularies = {card.src_vocabulary.model, card.tgt_vocabulary.model}
    model = optimizer.weights.master.nbytes + sum(map(len, vocabularies))
    # A file comes before another goes. Until the next state is written, the best of the last one
    # stay beside the present ones. The last model and the best are links, or files of their own.
    states = STATES_KEPT + 1
    checkpoints = min(config.keep_last + 1, config.max_updates // config.save_every)
    best = min(2 * config.keep_best + 1, config.max_updates // config.validate_every)
    models = checkpoints + best + 2
    needed = states * state + models * model - _size_of_checkpoints(run)
    free = shutil.disk_usage(run.checkpoints).free
    if free < needed:
        raise NMTError(
            f"{run.path}: the disk has {megabytes(free)} free, and the run needs "
            f"{megabytes(needed)} for {states} training states of {megabytes(state)} and {models} "
            f"models of {megabytes(model)}; make room, lower keep_last or keep_best, or choose "
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
