"""From a recipe and a data folder to a running trainer: devices, threads, ranks, the run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path

import torch

from nmt.config import Recipe
from nmt.data.folder import DataFolder
from nmt.errors import NMTError, Stopped, UsageError
from nmt.models.device import choose_device
from nmt.models.model_file import model_checksum
from nmt.training import checkpoint
from nmt.training.distributed import Ranks
from nmt.training.run_folder import InitialModel, RunFolder
from nmt.training.tensorboard import require_tensorboard
from nmt.training.trainer import Trainer


def launch(recipe: Recipe, data_path: Path, run_path: Path, init_from: Path | None = None) -> None:
    """Train a model, or go on with a run that was stopped.

    Args:
        recipe: all values.
        data_path: a data folder.
        run_path: the run folder to make or to go on with.
        init_from: the model file, or run folder, that the weights start from; None: random.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or what the run folder holds.
        Stopped: when asked to stop, with everything saved.
    """
    ranks = Ranks.from_environment()
    run = RunFolder(run_path)
    ranks.join()
    initial = InitialModel()
    try:
        with ranks.together():
            device, data = open_data(recipe, data_path, ranks)
            if ranks.is_first:
                if recipe.training.tensorboard:
                    require_tensorboard()
                initial = initial_model(init_from, run)
                run.create()
                run.lock()
        _check_same_data(data, ranks)
        initial = InitialModel(**ranks.gather(dataclasses.asdict(initial))[0])
        with ranks.together():
            recipe = settle(recipe, data, run, initial, ranks)
        _train(recipe, data, run, initial, ranks, device)
    except NMTError:
        ranks.leave()  # which all ranks raise together; after another error nobody may wait
        raise
    finally:
        run.unlock()
    ranks.leave()


def open_data(recipe: Recipe, data_path: Path, ranks: Ranks) -> tuple[torch.device, DataFolder]:
    """Return the device to train on and the data; UsageError where the recipe does not fit them."""
    device = choose_device(recipe.training.device, ranks.local_rank)
    data = DataFolder.open(data_path, verify=ranks.local_rank == 0)
    _check_fit(recipe, data)
    return device, data


def settle(
    recipe: Recipe, data: DataFolder, run: RunFolder, initial: InitialModel, ranks: Ranks
) -> Recipe:
    """Settle what the recipe leaves open, by the run if there is one, and the number of threads."""
    cores = max(1, len(os.sched_getaffinity(0)) // ranks.local_world_size)
    recipe = run.settle(recipe, data.fingerprint, initial, threads=cores, ranks=ranks.world_size)
    torch.set_num_threads(recipe.training.threads)
    return recipe


def _train(
    recipe: Recipe,
    data: DataFolder,
    run: RunFolder,
    initial: InitialModel,
    ranks: Ranks,
    device: torch.device,
) -> None:
    """Train, and leave word of a failure in the run folder."""
    trainer = None

    def leave_word(status: str, update: int, reason: str) -> None:
        if ranks.is_first and run.exists:
            with contextlib.suppress(OSError):  # a full disk may be what there is to tell
                run.write_status(status, update, reason)

    try:
        trainer = Trainer(recipe, data, run, initial, ranks, device)
        trainer.restore()
        # Only now, so that a recipe that does not fit the data can be put right in this folder.
        with ranks.together():
            if ranks.is_first:
                run.write_config(recipe, data.fingerprint, initial, ranks.world_size)
        trainer.train()
    except Stopped:
        raise
    except KeyboardInterrupt:
        saved = trainer.saved if trainer else run.last_update()
        leave_word("stopped", saved, "interrupted: what came after the last save is lost")
        raise
    except Exception as error:
        leave_word("failed", trainer.progress.update if trainer else run.last_update(), str(error))
        if isinstance(error, torch.OutOfMemoryError):
            raise NMTError(
                "the GPU's memory is full: lower micro_batch_tokens and run the same command again"
            ) from error
        raise


def initial_model(init_from: Path | None, run: RunFolder) -> InitialModel:
    """Return what the weights start from, as it is noted in the run folder."""
    if init_from is None:
        return InitialModel()
    if run.exists and checkpoint.has_state(run):
        # The state holds the weights: the model may have gone, or a run have a better one by now.
        noted = run.initial_model()
        if noted.path == str(init_from):
            return noted
    return InitialModel(str(init_from), model_checksum(init_from))


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
