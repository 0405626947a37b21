"""From a recipe and a data folder to a running trainer: devices, threads, ranks, the run folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from nmt.config import Recipe
from nmt.data.folder import DataFolder
from nmt.errors import NMTError, Stopped, UsageError
from nmt.models.device import choose_device
from nmt.training.distributed import Ranks
from nmt.training.run_folder import RunFolder
from nmt.training.trainer import Trainer


def launch(recipe: Recipe, data_path: Path, run_path: Path) -> None:
    """Train a model, or go on with a run that was stopped.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or what the run folder holds.
        Stopped: when asked to stop, with everything saved.
    """
    ranks = Ranks.from_environment()
    device = choose_device(recipe.training.device, ranks.local_rank)
    data = DataFolder.open(data_path, verify=ranks.local_rank == 0)
    _check_fit(recipe, data)
    run = RunFolder(run_path)
    ranks.join()
    try:
        if ranks.is_first:
            run.create()
            run.lock()
        ranks.barrier()
        cores = max(1, len(os.sched_getaffinity(0)) // ranks.local_world_size)
        recipe = run.settle(recipe, data.fingerprint, threads=cores, ranks=ranks.world_size)
        torch.set_num_threads(recipe.training.threads)
        _train(recipe, data, run, ranks, device)
    finally:
        run.unlock()
        ranks.leave()


def _train(
    recipe: Recipe, data: DataFolder, run: RunFolder, ranks: Ranks, device: torch.device
) -> None:
    """Train, and leave word of a failure in the run folder."""
    trainer = None
    try:
        trainer = Trainer(recipe, data, run, ranks, device)
        # Only now, so that a recipe that does not fit the data can be put right in this folder.
        if ranks.is_first:
            run.write_config(recipe, data.fingerprint, ranks.world_size)
        trainer.train()
    except Stopped:
        raise
    except Exception as error:
        if ranks.is_first and run.exists:
            update = trainer.progress.update if trainer else 0
            with contextlib.suppress(OSError):  # a full disk is what there is to tell
                run.write_status("failed", update, str(error))
        if isinstance(error, torch.OutOfMemoryError):
            raise NMTError(
                "the GPU's memory is full: lower micro_batch_tokens and run the same command again"
            ) from error
        raise


def _check_fit(recipe: Recipe, data: DataFolder) -> None:
    if not data.joint and getattr(recipe.model, "tie_embeddings", "") == "all":
        raise UsageError(
            f"{data.path} has a vocabulary for each side, which cannot share one embedding; "
            "add --set tie_embeddings=decoder"
        )
