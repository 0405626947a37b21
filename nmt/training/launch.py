"""From a recipe and a data folder to a running trainer: devices, threads, ranks, the run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections import Counter
from pathlib import Path

import torch

from nmt.config import Recipe
from nmt.cpu import cores, default_threads, give_way
from nmt.data.folder import DataFolder
from nmt.distributed import RankLost, Ranks, RankStopped
from nmt.errors import NMTError, Stopped, UsageError
from nmt.models.device import choose_device, keep_freed_memory, memory_errors
from nmt.models.kernels.linear import fastest_library, use_library
from nmt.models.kernels.packed_weights import multiplied
from nmt.models.model_file import model_checksum
from nmt.models.registry import build_model, shapes_only
from nmt.runs import checkpoint
from nmt.runs.report import require_tensorboard
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training.memory import CPU_TOKENS
from nmt.training.saving import Need, check_space
from nmt.training.stop import StopRequest
from nmt.training.trainer import Trainer
from nmt.training.verify import verify


@memory_errors()
def launch(
    recipe: Recipe,
    data_path: Path,
    run_path: Path,
    init_from: Path | None = None,
    *,
    deadline: float = math.inf,
    verify_resume: bool = False,
) -> None:
    """Train a model, or go on with a run that was stopped.

    Args:
        recipe: all values.
        data_path: a data folder.
        run_path: the run folder to make or to go on with.
        init_from: the model file, or run folder, that the weights start from; None: random.
        deadline: when the run stops by itself, a time of `time.monotonic`.
        verify_resume: train nothing; see whether the run would go on bit for bit.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or what the run folder holds.
        Stopped: when asked to stop, with everything saved.
        NMTError: when another process of the run has failed, among others.
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
                if not verify_resume:
                    run.create()
                elif not run.exists:
                    raise UsageError(f"{run.path}: no run to verify; train one first")
                run.lock()
        _check_same(recipe, data, device, ranks)
        initial = InitialModel(**ranks.gather(dataclasses.asdict(initial))[0])
        recipe = settle(recipe, data, run, initial, ranks, device)
        if verify_resume:
            verify(recipe, data, run, initial, ranks, device)
        else:
            _train(recipe, data, run, initial, ranks, device, StopRequest(deadline))
    except (RankLost, RankStopped):
        raise
    except NMTError:
        ranks.leave()  # which all ranks raise together; after another error nobody may wait
        raise
    except Exception as error:
        with StopRequest().listening():  # torchrun sends SIGTERM to the ranks that are left
            lost = ranks.lost_by(error)
        if lost is not None:
            raise lost from error
        raise
    finally:
        run.unlock()
    ranks.leave()


def open_data(recipe: Recipe, data_path: Path, ranks: Ranks) -> tuple[torch.device, DataFolder]:
    """Return the device to train on and the data; UsageError where the recipe does not fit them."""
    device = choose_device(recipe.training.device, ranks.local_rank)
    if device.type == "cpu":
        keep_freed_memory()
    data = DataFolder.open(data_path, verify=ranks.local_rank == 0)
    _check_fit(recipe, data)
    return device, data


def settle(
    recipe: Recipe,
    data: DataFolder,
    run: RunFolder,
    initial: InitialModel,
    ranks: Ranks,
    device: torch.device,
) -> Recipe:
    """Settle what the recipe leaves open: by the run if there is one, else for this machine.

    The first rank, which alone may have the run folder, settles it for all. Threads and the library
    of matrix products then are those of this process.
    """
    training = recipe.training
    share = max(1, cores() // ranks.local_world_size)
    with ranks.together():
        if ranks.is_first and run.exists:
            training = run.settled(training, ranks.world_size, share)
    threads = training.threads or default_threads(ranks.local_world_size)
    threads, matmul = ranks.gather([threads, training.matmul])[0]
    torch.set_num_threads(threads)
    if threads > 1 and device.type == "cpu":
        give_way()
    # Each process would start so many compilers as if it were alone.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(share))
    if matmul == "auto":
        matmul = ranks.gather(_matmul(recipe, data, ranks, device))[0]
    use_library(matmul)
    training = dataclasses.replace(recipe.training, threads=threads, matmul=matmul)
    recipe = dataclasses.replace(recipe, training=training)
    with ranks.together():
        if ranks.is_first and run.exists:
            run.refuse_changes(recipe, data.fingerprint, initial)
    return recipe


def _matmul(recipe: Recipe, data: DataFolder, ranks: Ranks, device: torch.device) -> str:
    """Return the faster library for each kind of product of this model."""
    config = recipe.training
    if device.type != "cpu" or config.precision != "fp32":
        return "torch"  # the others have no choice
    with shapes_only():
        model = build_model(
            recipe.architecture, recipe.model, len(data.src_vocabulary), len(data.tgt_vocabulary)
        )
    weights = Counter((len(weight), weight.shape[1]) for weight in multiplied(model))
    rows = config.micro_batch_tokens or CPU_TOKENS[config.precision]
    return fastest_library(weights, min(rows, -(-config.batch_tokens // ranks.world_size)))


def _train(
    recipe: Recipe,
    data: DataFolder,
    run: RunFolder,
    initial: InitialModel,
    ranks: Ranks,
    device: torch.device,
    stop: StopRequest,
) -> None:
    """Train, and leave word of a failure in the run folder."""
    trainer = None
    try:
        with stop.listening():
            # Trying how much fits may take minutes to compile the model.
            with stop.at_once() if recipe.training.compile else contextlib.nullcontext():
                restored = Trainer(recipe, data, run, initial, ranks, device, stop)
                restored.restore()
            trainer = restored
            # Only now, so that a recipe that does not fit the data can be put right in this folder.
            with ranks.together():
                if ranks.is_first:
                    vocabulary_bytes = trainer.card.vocabulary_bytes
                    check_space(
                        run,
                        Need.of(
                            recipe.training, trainer.optimizer, vocabulary_bytes=vocabulary_bytes
                        ),
                    )
                    run.write_config(recipe, data.fingerprint, initial, ranks=ranks.world_size)
            trainer.train()
    except Stopped:
        raise
    except KeyboardInterrupt:
        with StopRequest().listening():  # or the next signal would interrupt this
            ranks.stopped_at_once(stop.reason)
            if ranks.is_first:
                _leave_word_of_stop(run, trainer, stop.reason)
        raise
    except Exception as error:
        update = trainer.progress.update if trainer else run.last_update()
        # torchrun sends SIGTERM to the ranks that are left; first they find out what to say.
        with StopRequest().listening():
            lost = ranks.lost_by(error)
            if isinstance(lost, RankStopped):
                if ranks.is_first:
                    _leave_word_of_stop(run, trainer, str(lost))
            elif ranks.is_first or (lost and 0 in lost.ranks):
                _leave_word(run, "failed", update, str(lost or error))
        if lost is not None:
            raise lost from error
        raise


def _leave_word_of_stop(run: RunFolder, trainer: Trainer | None, reason: str) -> None:
    saved = trainer.saver.saved if trainer else run.last_update()
    is_lost = trainer is not None and trainer.progress.update > saved
    loss = ": what came after the last save is lost" if is_lost else ""
    _leave_word(run, "stopped", saved, f"interrupted ({reason}){loss}")


def _leave_word(run: RunFolder, status: str, update: int, reason: str) -> None:
    if run.path.is_dir():
        with contextlib.suppress(OSError):  # a full disk may be what there is to tell
            run.write_status(status, update, reason)


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


def _check_same(recipe: Recipe, data: DataFolder, device: torch.device, ranks: Ranks) -> None:
    """Refuse copies of the data, kinds of device or presets that differ between machines."""
    if len(set(ranks.gather(device.type))) > 1:
        raise UsageError("some processes have a GPU and others have none; give --device cpu")
    if len(set(ranks.gather(data.fingerprint))) > 1:
        raise UsageError(f"{data.path}: not the same data folder on all machines; copy one to all")
    if len(set(ranks.gather(recipe.preset))) > 1:  # where the run folder is on one of them only
        raise UsageError("the processes have chosen different presets; give --model")


def _check_fit(recipe: Recipe, data: DataFolder) -> None:
    if not data.joint and getattr(recipe.model, "tie_embeddings", "") == "all":
        raise UsageError(
            f"{data.path} has a vocabulary for each side, which cannot share one embedding; "
            "add --set tie_embeddings=decoder"
        )
    longest, limit = data.info.settings.max_length + 1, recipe.model.longest_sentence  # with eos
    if limit is not None and longest > limit:
        raise UsageError(
            f"{data.path} has sentences of up to {longest} tokens, eos counted, and max_positions "
            f"is {limit}; add --set max_positions={longest}, or prepare with --max-length "
            f"{limit - 1}"
        )
