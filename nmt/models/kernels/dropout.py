"""Dropout (Srivastava et al. 2014) that does not wait for the CPU's random generator."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_RANGE = 1 << 16
_pools: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}
"""By rate, type and device: a vector of 0 and 1 / (1 - p)."""


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Zero each element of x with probability p and scale the others by 1 / (1 - p).

    On CPUs torch draws a random number per element in one thread, which takes longer than a layer's
    matrix products. Here a mask is a stretch of a pool, from a random start. Two masks of a forward
    pass may overlap in the pool, but within a mask all elements are independent. p is rounded to a
    multiple of 2^-16. On GPUs this is torch's dropout.
    """
    if not training or p == 0.0:
        return x
    return F.dropout(x, p) if x.is_cuda else x * _mask(x, p)


def add_dropped(x: Tensor, output: Tensor, p: float, training: bool) -> Tensor:
    """Return x + dropout(output), both of one shape, in one pass."""
    if not training or p == 0.0 or x.is_cuda:
        return x + dropout(output, p, training)
    return torch.addcmul(x, output, _mask(output, p))


def seed_dropout(seed: int) -> None:
    """Seed all dropout from here on."""
    torch.manual_seed(seed)
    _pools.clear()


def forget_masks(device: torch.device) -> None:
    """Drop the mask pools of a device; the next masks are drawn anew."""
    for key in [key for key in _pools if key[2] == device]:
        del _pools[key]


def _mask(x: Tensor, p: float) -> Tensor:
    size = x.numel()
    pool = _pools.get((p, x.dtype, x.device))
    if pool is None or len(pool) < 2 * size:
        with torch.inference_mode(False):  # so that gradients can flow through it later
            pool = _pools[p, x.dtype, x.device] = _draw(2 * size, p, x)
    start = int(torch.randint(len(pool) - size + 1, (), device="cpu"))
    return pool[start : start + size].view(x.shape)


def _draw(size: int, p: float, like: Tensor) -> Tensor:
    # One 64-bit number decides four elements.
    quarters = torch.empty((size + 3) // 4, dtype=torch.int64, device=like.device)
    quarters.random_(-(1 << 63), None)
    drawn = quarters.view(torch.int16)[:size]  # uniform on -2^15 .. 2^15 - 1
    dropped = min(round(p * _RANGE), _RANGE - 1)
    return (drawn >= dropped - _RANGE // 2).to(like.dtype).mul_(_RANGE / (_RANGE - dropped))
