"""How many processes train on this machine, and why: one a GPU, or one a core if that pays."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from nmt.config.recipes import Recipe
from nmt.data.manifest import read_info
from nmt.errors import UsageError
from nmt.models.device import gpus_of
from nmt.runs.run_folder import RunFolder
from nmt.system.machine import default_threads, most_workers
from nmt.training.memory import CPU_TOKENS, available_bytes, even_batch, memory_needs

_FEWEST_TOKENS = 500
"""Target tokens of an update that a process on a CPU should have at least.

With fewer, its products are so small that calls take longer than they do.
"""
_MOST_ON_CPUS = 8
"""The most processes on CPUs that are chosen: each sends its gradient to all others."""
_TORCH_BYTES = 400 << 20
"""Of a process besides its model: torch itself, and memory that is kept for the next batch."""


def choose_processes(
    asked: int | None, recipe: Recipe, data: Path, run: RunFolder | None
) -> tuple[int, str]:
    """Return how many processes train, and in some words why.

    Args:
        asked: how many the user wants; None: as many as the run had, or else what is best.
        recipe: the values of the run.
        data: the data folder.
        run: the run folder, which need not exist; None: the run may get another number.

    Raises:
        UsageError: if there are not so many GPUs, or too few cores by far.
    """
    gpus = gpus_of(
        recipe.training.device,
        lambda: torch.cuda.device_count() if torch.cuda.is_available() else 0,
    )
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
    limits = {
        "one process a core": cores,
        f"an update has {_FEWEST_TOKENS} tokens for no more": (
            training.batch_tokens // _FEWEST_TOKENS
        ),
        f"more than {_MOST_ON_CPUS} were never tried": _MOST_ON_CPUS,
    }
    if min(limits.values()) > 1:
        limits["memory has room for no more"] = available_bytes() // _bytes_of_one(recipe, data)
    reason, most = min(limits.items(), key=lambda limit: limit[1])
    # Each has as many threads, so some numbers would leave cores idle.
    count = max(range(1, max(1, most) + 1), key=lambda count: (cores // count * count, count))
    return count, reason


def _bytes_of_one(recipe: Recipe, data: Path) -> int:
    """Return the memory that one process needs, in fp32 and for a usual micro-batch."""
    info, training = read_info(data), recipe.training
    sizes, longest = info.vocabulary.sizes, info.max_length + 1
    tokens = training.micro_batch_tokens or CPU_TOKENS["fp32"]
    batch = even_batch(max(longest, min(tokens, training.batch_tokens)), longest, min(sizes))
    in_fp32 = dataclasses.replace(training, precision="fp32")
    needs = memory_needs(
        dataclasses.replace(recipe, training=in_fp32), (sizes[0], sizes[-1]), batch
    )
    return _TORCH_BYTES + sum(needs.values())
