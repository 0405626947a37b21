"""Where a model computes, and in which type."""

from __future__ import annotations

import torch

from nmt.errors import UsageError, did_you_mean

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device that `auto`, `cpu` or `cuda` means for a process of this machine.

    Raises:
        UsageError: if the name is unknown, or no GPU is there for this process.
    """
    if name not in DEVICES:
        raise UsageError(f"unknown device {name!r}{did_you_mean(name, DEVICES)}")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and not gpus):
        return torch.device("cpu")
    if not gpus:
        raise UsageError(
            "device cuda: this machine has no GPU that torch can use; use --device cpu"
        )
    if local_rank >= gpus:
        raise UsageError(f"process {local_rank} has no GPU: this machine has {gpus}; start fewer")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
