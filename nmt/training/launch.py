"""From a recipe and a data folder to a running trainer: devices, threads, ranks, the run folder."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

import torch

from nmt.config import Recipe
from nmt.data.folder import DataFolder
from nmt.errors import NMTError, Stopped, UsageError
from nmt.models.device import choose_device
from nmt.training.disk_space import check_space
from nmt.training.distributed import Ranks
from nmt.training.run_folder import RunFolder
from nmt.training.stop import StopRequest
from nmt.training.surroundings import surroundings
from nmt.training.trainer import Trainer
from nmt.training.verify import verify


def launch(
    recipe: Recipe,
    data_path: Path,
    run_path: Path,
    *,
    deadline: float = math.inf,
    verify_resume: bool = False,
) -> None:
    """Train a model, or go on with a run that was stopped.

    Args:
        deadline: when the run stops by itself, a time of `time.monotonic`.
        verify_resume: train nothing; see whether the run would go on bit for bit.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or what the run folder holds.
        Stopped: when asked to stop, with everything saved.
    """
    ranks = Ranks.from_environment()
    run = RunFolder(run_path)
    ranks.join()
    try:
        with ranks.together():
            device = choose_device(recipe.training.device, ranks.local_rank)
            data = DataFolder.open(data_path, verify=ranks.local_rank == 0)
            _check_fit(recipe, data)
            if ranks.is_first:
                if not verify_resume:
                    run.create()
                elif not run.exists:
                    raise UsageError(f"{run.path}: no run to verify; train one first")
                run.lock()
        _check_same_data(data, ranks)
        cores = max(1, len(os.sched_getaffinity(0)) // ranks.local_world_size)
        with ranks.together():
            recipe = run.settle(recipe, data.fingerprint, threads=cores)
        torch.set_num_threads(recipe.training.threads)
        if verify_resume:
            verify(recipe, data, run, ranks, device)
        else:
            _train(recipe, data, run, ranks, device, StopRequest(deadline))
    except NMTError:
        ranks.leave()  # which all ranks raise together; after another error nobody may wait
        raise
    finally:
        run.unlock()
    ranks.leave()


def _train(
    recipe: Recipe,
    data: DataFolder,
    run: RunFolder,
    ranks: Ranks,
    device: torch.device,
    stop: StopRequest,
) -> None:
    """Train, and leave word of a failure in the run folder."""
    trainer = None

    def leave_word(status: str, update: int, reason: str) -> None:
        if ranks.is_first and run.exists:
            with contextlib.suppress(OSError):  # a full disk may be what there is to tell
                run.write_status(status, update, reason)

    try:
        trainer = Trainer(recipe, data, run, ranks, device, stop)
        # Only now, so that a recipe that does not fit the data can be put right in this folder.
        with ranks.together():
            if ranks.is_first:
                check_space(run, recipe.training, trainer.card, trainer.optimizer)
                run.write_config(recipe, data.fingerprint, surroundings(ranks, device))
        trainer.train()
    except Stopped:
        raise
    except KeyboardInterrupt:
        saved = trainer.saver.saved if trainer else run.last_update()
        leave_word("stopped", saved, "interrupted: what came after the last save is lost")
        raise
    except Exception as error:
        leave_word("failed", trainer.progress.update if trainer else run.last_update(), str(error))
        if isinstance(error, torch.OutOfMemoryError):
            raise NMTError(
                "the GPU's memory is full: lower micro_batch_tokens and run the same command again"
            ) from error
        raise


def _check_same_data(data: DataFolder, ranks: Ranks) -> None:
    """Refuse copies of the data that differ between machines."""
    if len(set(ranks.gather(data.fingerprint))) > 1:
        raise UsageError(f"{data.path}: not the same data folder on all machines; copy one to all")


def _check_fit(recipe: Recipe, data: DataFolder) -> None:
    if not data.joint and getattr(recipe.model, "tie_embeddings", "") == "all":
        raise UsageError(
            f"{data.path} has a vocabulary for each side, which cannot share one embedding; "
            "add --set tie_embeddings=decoder"
        )
