"""Dropout (Srivastava et al. 2014) that does not wait for the CPU's random generator."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_RANGE = 1 << 16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Zero each element of x with probability p and scale the others by 1 / (1 - p).

    On CPUs torch draws one random number an element, in one thread, which costs more than a
    layer's matrix products. Here one 64-bit number decides on four elements, so p is rounded to a
    multiple of 2^-16. On GPUs it is torch's own.
    """
    if not training or p == 0.0:
        return x
    if x.is_cuda:
        return F.dropout(x, p)
    quarters = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    drawn = quarters.view(torch.int16)[: x.numel()].view_as(x)  # uniform on -2^15 .. 2^15 - 1
    dropped = min(round(p * _RANGE), _RANGE - 1)
    kept = (drawn >= dropped - _RANGE // 2).to(x.dtype)
    return x * kept.mul_(_RANGE / (_RANGE - dropped))
