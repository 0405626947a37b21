"""Start a run: join the ranks, open data and run folder, choose device, threads and libraries."""

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
    """Train a model, or resume a run that was stopped.

    Args:
        recipe: all values.
        data_path: a data folder.
        run_path: the run folder to make or to resume.
        init_from: the model file or run folder that the weights start from; None: random weights.
        deadline: the time, as of `time.monotonic`, at which the run stops.
        verify_resume: train nothing; check that the run would resume bit for bit.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or the run folder.
        Stopped: if asked to stop, with everything saved.
        NMTError: for example, if another process of the run has failed.
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
                    raise UsageError(f"{run.path} is not a run folder; train first, then verify")
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
        ranks.leave()  # all ranks raise this error together; after any other, nobody may wait
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
    """Return the device to train on and the data; UsageError if the recipe does not fit them."""
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
    """Fill in values that the recipe leaves open: from the run if there is one, else for this CPU.

    The first rank decides for all, because only it may have the run folder. Threads and the matmul
    library are then set for this process.
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
    # Otherwise each process would start as many compilers as if it were the only one.
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
    """Return the faster library for each kind of matrix product of this model."""
    config = recipe.training
    if device.type != "cpu" or config.precision != "fp32":
        return "torch"  # only fp32 on a CPU has a choice
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
    """Train; if that fails or is interrupted, write so to the run folder."""
    trainer = None
    try:
        with stop.listening():
            # Finding the size of micro-batches may take minutes, to compile the model.
            with stop.at_once() if recipe.training.compile else contextlib.nullcontext():
                restored = Trainer(recipe, data, run, initial, ranks, device, stop)
                restored.restore()
            trainer = restored
            # Only now, so that you can correct a recipe that does not fit the data in this folder.
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
    loss = ": updates after the last save are lost" if is_lost else ""
    _leave_word(run, "stopped", saved, f"interrupted ({reason}){loss}")


def _leave_word(run: RunFolder, status: str, update: int, reason: str) -> None:
    if run.path.is_dir():
        with contextlib.suppress(OSError):  # the failure may be a full disk
            run.write_status(status, update, reason)


def initial_model(init_from: Path | None, run: RunFolder) -> InitialModel:
    """Return the model that the weights start from, as the run folder records it."""
    if init_from is None:
        return InitialModel()
    if run.exists and checkpoint.has_state(run):
        # The weights are in the state. The model may be gone, or its run may have a better one now.
        noted = run.initial_model()
        if noted.path == str(init_from):
            return noted
    return InitialModel(str(init_from), model_checksum(init_from))


def _check_same(recipe: Recipe, data: DataFolder, device: torch.device, ranks: Ranks) -> None:
    """Refuse copies of the data, kinds of device or presets that differ between machines."""
    if len(set(ranks.gather(device.type))) > 1:
        raise UsageError("only some of the processes have a GPU; give --device cpu")
    if len(set(ranks.gather(data.fingerprint))) > 1:
        raise UsageError(f"{data.path} differs between the machines; copy one folder to all")
    if len(set(ranks.gather(recipe.preset))) > 1:  # only one machine has the run folder
        raise UsageError("the processes have different presets; give --model")


def _check_fit(recipe: Recipe, data: DataFolder) -> None:
    if not data.joint and getattr(recipe.model, "tie_embeddings", "") == "all":
        raise UsageError(
            f"{data.path} has separate vocabularies, which cannot share one embedding; "
            "add --set tie_embeddings=decoder"
        )
    longest, limit = data.info.max_length + 1, recipe.model.longest_sentence  # with eos
    if limit is not None and longest > limit:
        raise UsageError(
            f"{data.path} has sentences of up to {longest} tokens, but max_positions is {limit}; "
            f"add --set max_positions={longest} or prepare with --max-length {limit - 1}"
        )
