"""Before a run: choose how many processes train, and open it on each of them.

Data, machine and run folder are checked against the recipe, and what is `auto` is filled in.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt import console
from nmt.config.recipes import Recipe
from nmt.data.folder import DataFolder
from nmt.errors import UsageError
from nmt.models.device import choose_device, gpus_of, keep_freed_memory, torch_gpus
from nmt.models.model_file import model_checksum
from nmt.models.registry import count_parameters
from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.report import require_tensorboard
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.system.distributed import Ranks
from nmt.system.machine import default_threads, most_workers
from nmt.training.autotune import choose_auto_values
from nmt.training.choose_recipe import TrainCommand
from nmt.training.memory import available_bytes
from nmt.training.validation import tokenizers_of

_FEWEST_TOKENS = 500
"""Target tokens of an update that a process on a CPU should have at least.

With fewer, its products are so small that calls take longer than they do.
"""
_MOST_ON_CPUS = 8
"""The most processes on CPUs that are chosen: each sends its gradient to all others."""
_SECONDS_OF_NFS = 10.0
"""How long a machine looks for what another has just written."""
_BYTES_OF_A_PARAMETER, _BYTES_OF_A_PROCESS = 20, 1 << 29
"""Memory that a process on a CPU should have: for fp32 weights, gradient, Adam's vectors and an
average, and besides for torch itself and a micro-batch, which is smaller if need be."""


def choose_processes(
    asked: int | None, recipe: Recipe, data: Path, run: RunFolder | None
) -> tuple[int, str]:
    """Return how many processes train, and in some words why.

    asked: how many the user wants; None: as many as the run had, or else what is best.
    recipe: the values of the run.
    data: the data folder.
    run: the run folder, which need not exist; None: the run may get another number.
    UsageError if there are not so many GPUs, or too few cores by far, or if recipe and data do not
    fit.
    """
    gpus = gpus_of(recipe.training.device, torch_gpus)
    most = gpus or most_workers()
    if asked is not None:
        if asked > most:
            raise UsageError(
                f"--processes {asked}: this machine takes at most {most}"
                f"{', one a GPU' * bool(gpus)}; give fewer, or auto"
            )
        return asked, "as asked"
    if run is not None and run.exists and (before := run.ranks()) <= most:
        return before, "as before"
    if gpus:
        return gpus, "one process a GPU"
    return _choose_on_cpu(recipe, data)


def _choose_on_cpu(recipe: Recipe, data: Path) -> tuple[int, str]:
    """Return as many processes as cores, or as few as updates, memory or the user call for."""
    training, cores = recipe.training, default_threads()
    if training.threads:
        return 1, "as threads are given"
    of_tokens = training.batch_tokens // _FEWEST_TOKENS
    limits = {
        "one process a core": cores,
        f"an update has {_FEWEST_TOKENS} tokens for no more": of_tokens,
        f"more than {_MOST_ON_CPUS} were never tried": _MOST_ON_CPUS,
    }
    if min(limits.values()) > 1:
        limits["memory has room for no more"] = available_bytes() // _bytes_of_one(recipe, data)
    reason, most = min(limits.items(), key=lambda limit: limit[1])
    # Each has as many threads, so some numbers would leave cores idle.
    count = max(range(1, max(1, most) + 1), key=lambda count: (cores // count * count, count))
    return count, reason


def _bytes_of_one(recipe: Recipe, data: Path) -> int:
    """Return the memory that one of several processes should have."""
    folder = DataFolder.open(data)
    check_fit(recipe, folder)  # else no model can be built
    sizes = len(folder.src_vocabulary), len(folder.tgt_vocabulary)
    parameters = count_parameters(recipe.architecture, recipe.model, *sizes)
    return _BYTES_OF_A_PROCESS + _BYTES_OF_A_PARAMETER * parameters


@dataclass(frozen=True)
class OpenRun:
    """A run whose recipe, data and machine fit each other."""

    recipe: Recipe  # with every value chosen
    data: DataFolder
    run: RunFolder
    ranks: Ranks
    device: torch.device
    initial: InitialModel  # that its weights start from


def open_run(
    recipe: Recipe, command: TrainCommand, run: RunFolder, ranks: Ranks, *, is_trial: bool = False
) -> OpenRun:
    """Open data and run folder, and choose the device and the values that the recipe leaves open.

    recipe: that of the first rank counts, as only its machine need have the run folder.
    command: see `train`.
    run: the run folder, which is then locked.
    ranks: all processes.
    is_trial: do not make or lock the run folder.
    UsageError if the recipe does not fit the data, the machine or the run folder.
    """
    initial, mark = ("", ""), ""
    recipe = ranks.gather(recipe)[0]
    with ranks.raise_on_all_ranks():
        device = choose_device(recipe.training.device, ranks.local_rank)
        if device.type == "cpu":
            keep_freed_memory()
        data = DataFolder.open(command.data, verify=ranks.local_rank == 0)
        if ranks.is_first and run.exists:
            _refuse(run.other_data(data), run)
        check_fit(recipe, data)
        if ranks.is_first:
            initial = _initial_model(command.init_from, run)
            if recipe.training.lora_rank and not initial[0]:
                raise UsageError("lora_rank is for a model that is tuned; give --init-from")
            if is_trial:
                run.check()
            else:
                if recipe.training.tensorboard:
                    require_tensorboard()
                run.create()
                mark = run.lock()
    if not is_trial:
        _check_shared(run, ranks, mark)
    _check_same(data, device, ranks)
    initial = ranks.gather(initial)[0]
    recipe = choose_auto_values(recipe, data, run, ranks, device)
    with ranks.raise_on_all_ranks():
        if ranks.is_first and run.exists:
            _refuse(run.changes(recipe, initial)[1], run)
    return OpenRun(recipe, data, run, ranks, device, initial)


def _refuse(changes: Sequence[str], run: RunFolder) -> None:
    """Raise UsageError if something changed that must not."""
    if changes:
        raise UsageError(
            f"{run.path} holds a run with other values: {'; '.join(changes)}; give the old values "
            f"to resume it, or another --out, with --init-from {run.path} to start from its weights"
        )


def _check_shared(run: RunFolder, ranks: Ranks, mark: str) -> None:
    """Refuse a machine that has another run in place of this one; warn if it has none there.

    torchrun may choose that machine to go on with the run, which would begin again.
    """
    mark = ranks.gather(mark)[0]
    give_up_at = time.monotonic() + _SECONDS_OF_NFS
    while not (sees := run.has_mark(mark)) and time.monotonic() < give_up_at:
        time.sleep(0.2)
    found = ranks.gather((socket.gethostname(), sees, run.exists))
    blind = {host: is_run for host, sees, is_run in found if not sees}
    for host, is_run in blind.items():
        problem = (
            f"{run.path} on {host} is not the folder on {found[0][0]}; "
            "put it on a file system that all machines share"
        )
        if is_run:
            raise UsageError(f"{problem}, and keep the run that has more updates")
        if ranks.is_first:
            console.warning(f"{problem}, or let {found[0][0]} always run the first process")


def _initial_model(init_from: Path | None, run: RunFolder) -> InitialModel:
    """Return the model that the weights start from, as the run folder records it."""
    if run.exists:
        path, _ = noted = run.initial_model()
        # The weights are in the state. The model may be gone, or its run may have a better one now.
        if updates_of(run, STATE) and str(init_from or path) == path:
            return noted
        if init_from is None and path:
            init_from = Path(path)
    if init_from is None:
        return "", ""
    return str(init_from), model_checksum(init_from)


def _check_same(data: DataFolder, device: torch.device, ranks: Ranks) -> None:
    """Refuse copies of the data or kinds of device that differ between machines."""
    if len(set(ranks.gather(device.type))) > 1:
        raise UsageError("only some of the processes have a GPU; give --device cpu")
    if len(set(ranks.gather(data.fingerprint))) > 1:
        raise UsageError(f"{data.path} differs between the machines; copy one folder to all")


def check_guided_alignment(recipe: Recipe) -> None:
    """Refuse a recipe whose model cannot be trained so, with UsageError."""
    if recipe.training.guided_alignment and not getattr(recipe.model, "source_end", True):
        raise UsageError(
            "guided_alignment is for models with source_end=true; set guided_alignment=0"
        )
    if recipe.training.guided_alignment and recipe.architecture != "transformer":
        raise UsageError(
            f"guided_alignment is for Transformers, but {recipe.preset} is {recipe.architecture}; "
            "set guided_alignment=0"
        )


def check_fit(recipe: Recipe, data: DataFolder) -> None:
    """Refuse a recipe that cannot be trained on some data, with UsageError."""
    if recipe.augment.any and data.train_text is None:
        raise UsageError(
            f"{data.path} has no text, which [augment] changes; prepare it with --keep-text"
        )
    check_guided_alignment(recipe)
    tokenizers_of(recipe.training.validate_tokenizer, data)
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
