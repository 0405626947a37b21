"""Where a model computes, and in which type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nmt.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Torch's names of the types, by ours."""
PRECISIONS = {"cpu": ("fp32", "bf16", "int8"), "cuda": tuple(DTYPES)}
"""What a model can translate in, by the kind of device."""


def dtype_of(precision: str) -> torch.dtype:
    """Return the type of weights and activations in a precision."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[precision])
    return dtype


def check_device(name: str) -> None:
    """Refuse a name that means no device.

    Raises:
        UsageError: naming the nearest one.
    """
    if name not in DEVICES:
        raise UsageError(f"unknown device {name!r}{did_you_mean(name, DEVICES)}")


def gpus_of(name: str, count: Callable[[], int]) -> int:
    """Return how many GPUs `auto`, `cpu` or `cuda` means; 0: the CPU.

    Args:
        name: of the device.
        count: returns how many GPUs there are.

    Raises:
        UsageError: if the name is unknown, or there is no GPU.
    """
    check_device(name)
    gpus = 0 if name == "cpu" else count()
    if name == "cuda" and not gpus:
        raise UsageError("device cuda: this machine has no GPU that can be used; use --device cpu")
    return gpus


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device that `auto`, `cpu` or `cuda` means for a process of this machine.

    Raises:
        UsageError: if the name is unknown, or no GPU is there for this process.
    """
    check_device(name)  # before torch is loaded, which takes seconds
    import torch

    gpus = gpus_of(name, lambda: torch.cuda.device_count() if torch.cuda.is_available() else 0)
    if not gpus:
        return torch.device("cpu")
    if local_rank >= gpus:
        raise UsageError(f"process {local_rank} has no GPU: this machine has {gpus}; start fewer")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
