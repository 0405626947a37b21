"""What the bits of a run depend on beside its recipe and data; config.toml notes it."""

from __future__ import annotations

import platform

import torch

from nmt.training.distributed import Ranks


def surroundings(ranks: Ranks, device: torch.device, micro_batch_tokens: int) -> dict[str, object]:
    """Return the processes, the size of micro-batches, torch's version and the machine's kind."""
    if device.type == "cuda":
        machine = torch.cuda.get_device_name(device)
    else:
        machine = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {
        "ranks": ranks.world_size,
        "micro_batches": micro_batch_tokens,
        "torch": torch.__version__,
        "machine": machine,
    }
