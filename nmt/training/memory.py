"""The memory of training, computed in advance or measured, and the micro-batch that fits into it.

On a GPU we try a batch of the longest sentences. On a CPU, where the system kills a process that
takes too much, we compute the memory instead. There, more than 2,048 tokens of fp32 are not faster.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import resource
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.config.recipes import Recipe
from nmt.data.batches import Batch, FixedShape, SplitBounds, collate
from nmt.data.folder import DataFolder
from nmt.data.shards import TokenRows
from nmt.errors import NMTError
from nmt.models.device import dtype_of, torch_threads
from nmt.models.layers import forget_masks
from nmt.models.registry import build_model, shapes_only
from nmt.system.own_process import in_a_copy
from nmt.training.first_weights import choose_trained
from nmt.training.flat_weights import FlatWeights
from nmt.training.loss import losses_of
from nmt.training.optimizer import Optimizer
from nmt.training.update import TrainStep

_MEMINFO = Path("/proc/meminfo")
_PEAK, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_CGROUP = Path("/sys/fs/cgroup")
_LIMIT_AND_USE = ("memory.max", "memory.current")

CPU_TOKENS = {"fp32": 2_048, "tf32": 2_048, "bf16": 4_096, "fp16": 4_096}
"""Default tokens of a micro-batch on a CPU, by precision."""


def memory_needs(recipe: Recipe, vocabulary_sizes: tuple[int, int], batch: Batch) -> dict[str, int]:
    """Return the memory of training by name: weights, gradient, optimiser, and a micro-batch.

    The last is the peak of a micro-batch's forward and backward pass. We run the training code on
    torch's meta device, whose tensors have sizes but no content, and add up live tensors. It runs
    as on a CPU; the fused attention of GPUs keeps no scores and needs less. Memory inside matrix
    products is not counted. A copy of this process does it, because torch loads 70 MB of code for
    that device.
    """

    def needs() -> dict[str, int]:
        with torch_threads(1):  # a copy of this process has none of its threads
            return _needs(recipe, vocabulary_sizes, batch)

    return in_a_copy(needs)


def _needs(recipe: Recipe, vocabulary_sizes: tuple[int, int], batch: Batch) -> dict[str, int]:
    config = recipe.training
    forget_masks(torch.device("meta"))  # masks of an earlier call would not be counted
    with shapes_only():
        model = build_model(recipe.architecture, recipe.model, *vocabulary_sizes)
        choose_trained(model, config)
        weights = FlatWeights(model, dtype_of(config.precision))
        optimizer = Optimizer(weights, config, recipe.model.d_model)
        # Without links: their loss needs content, and next to no memory.
        batch = dataclasses.replace(batch.to(torch.device("meta")), links=None)
        live = LiveBytes()
        with live:
            loss, *_ = losses_of(model, batch, config.label_smoothing)
            loss.backward()  # type: ignore[no-untyped-call]
    return optimizer.held_bytes() | {"micro-batch": live.most}


class LiveBytes(TorchDispatchMode):
    """Adds up the storages of live tensors that were made while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._now = 0
        self._known: set[int] = set()  # addresses of the storages counted

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run one operation and count its new tensors."""
        before = {storage._cdata for storage in _storages(args)}
        result = func(*args, **(kwargs or {}))
        for storage in _storages(result):
            address, size = storage._cdata, storage.nbytes()
            # else a view, a result in place, or one of several that share a storage
            if address not in before and address not in self._known:
                self._known.add(address)
                self._now += size
                self.most = max(self.most, self._now)
                weakref.finalize(storage, self._forget, address, size)
        return result

    def _forget(self, address: int, size: int) -> None:
        self._known.discard(address)
        self._now -= size


def _storages(values: object) -> list[UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def available_bytes() -> int:
    """Return the free memory of this machine or container (on Linux; elsewhere, all memory)."""
    with contextlib.suppress(OSError):
        fields = dict(line.split(":") for line in _MEMINFO.read_text().splitlines())
        available = 1024 * int(fields["MemAvailable"].split()[0])
        with contextlib.suppress(OSError, ValueError):  # there is no limit, or it is "max"
            limit, used = (int((_CGROUP / name).read_text()) for name in _LIMIT_AND_USE)
            lines = (_CGROUP / "memory.stat").read_text().splitlines()
            counts = dict(line.split() for line in lines)
            cached = int(counts["inactive_file"]) + int(counts["active_file"])
            available = min(available, limit - used + cached)
        return available
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class PeakMemory:
    """The peak memory of this process since the object was made.

    On a GPU it counts tensors, on a CPU the whole process.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.restart()
        self.before = self._held()
        self._files_before = _status("RssFile")

    def restart(self) -> None:
        """Forget the peaks up to now, but not what is held."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        else:
            with contextlib.suppress(OSError):  # Linux only
                _PEAK.write_text("5")  # see proc(5)

    def bytes(self) -> int:
        """Return the peak above the memory at the start."""
        return self._held() - self.before

    def file_bytes(self) -> int:
        """Return how much of it is files, mostly code, which all processes of a machine share."""
        return _status("RssFile") - self._files_before

    def _held(self) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self._device))
        if peak := _status("VmHWM"):  # which `restart` changes
            return peak
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def _status(field: str) -> int:
    """Return the bytes of a field of this process's status; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError):
        (line,) = re.findall(f"{field}:(.+) kB", _STATUS.read_text())
        return 1024 * int(line)
    return 0


def longest_pair(data: DataFolder) -> int:
    """Return the tokens of the longest training sentence of either side, including eos."""
    train = data.info.train
    return max(train.src.longest, train.tgt.longest) + 1


def share_of_update(batch_tokens: int, ranks: int) -> int:
    """Return an upper bound on the tokens of a rank's share of an update, on either side."""
    # Shares are equal in the sum of both sides, and nearly equal in each.
    return batch_tokens if ranks == 1 else math.ceil(1.1 * batch_tokens / ranks)


def even_batch(
    tokens: int,
    length: int,
    types: int,
    shape: FixedShape | None = None,
    *,
    has_links: bool = False,
) -> Batch:
    """Return a batch of up to `tokens` tokens per side, in sentences of one length, with eos.

    types: size of the smaller vocabulary.
    has_links: whether tokens are linked, for guided alignment.
    """
    lengths = np.full(tokens // length, length - 1, dtype=np.int32)
    while shape and not shape.fits(lengths, lengths):
        lengths = lengths[1:]
    ids = (np.arange(lengths.sum()) % types).astype(np.uint32)
    lines = TokenRows(ids, lengths)
    links = np.tile(np.arange(length - 1), len(lengths)) if has_links else None
    return collate(lines, lines, shape, links)


def fitting_tokens(recipe: Recipe, data: DataFolder, train_step: TrainStep) -> int:
    """Return the tokens of a micro-batch: the recipe's value, or less if memory is too small.

    All ranks take part and get the same number.

    NMTError if not even one pair fits.
    """
    config, longest, ranks = recipe.training, longest_pair(data), train_step.ranks
    cpu = train_step.device.type == "cpu"
    share = share_of_update(config.batch_tokens, ranks.world_size)
    usual = CPU_TOKENS[config.precision] if cpu else share
    tokens = max(longest, config.micro_batch_tokens or usual)
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)

    def is_too_much(*, eager: bool = False) -> bool:
        """Return whether memory is too small for `tokens` on any rank."""
        return ranks.any(not fits(eager=eager))

    def fits(*, eager: bool) -> bool:
        shape = train_step.shape(data.train, SplitBounds(ranks.world_size, tokens, longest))
        is_guided = bool(config.guided_alignment)
        batch = even_batch(tokens, longest, min(sizes), shape, has_links=is_guided)
        if not cpu:
            return train_step.fits(batch, eager=eager)
        if config.micro_batch_tokens:  # we trust the user's value
            return True
        if ranks.local_rank:  # the first process of a machine answers for all of them
            return True

        need = memory_needs(recipe, sizes, batch)["micro-batch"]
        copy_to_save = sum(vector.nbytes for vector in train_step.optimizer.vectors().values())
        return need + copy_to_save < available_bytes() / ranks.local_world_size

    def halve() -> None:
        nonlocal tokens
        if tokens == longest:
            raise NMTError(
                f"not enough memory to train this model on one pair of {longest} tokens; train a "
                "smaller model or prepare with a smaller --max-length"
            )
        tokens = max(longest, tokens // 2)

    if not cpu:
        train_step.rehearse_sum()
    # Compiling for a size takes minutes. So after the first, sizes are tried eager, which takes no
    # less memory, and only the one that fits is compiled. What we return has been tried as it runs.
    while is_too_much():
        halve()
        while config.compiles_loss and not cpu and is_too_much(eager=True):
            halve()
    return tokens
