"""What this machine has, as far as a recipe depends on it."""

from __future__ import annotations

import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.training.memory import available_bytes

OPEN_FILES = 1_024
"""What a process may have to open: a training process holds each shard of half a million pairs
open, and NCCL a good number for the GPUs of a machine."""
SHARED_MEMORY = 1_000_000_000
"""Bytes of /dev/shm, through which processes of several GPUs exchange gradients where these cannot
reach each other: what NCCL's user guide asks for in containers."""
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Gpu:
    """One of the GPUs that torch sees."""

    name: str
    memory: int  # bytes
    capability: tuple[int, int]


@dataclass(frozen=True)
class Machine:
    """What is there."""

    torch: str
    cuda: str | None  # of torch; None: it was built without
    gpus: tuple[Gpu, ...]
    free_disk: int  # bytes, where the work folder is or will be
    memory: int  # bytes of main memory that are free
    open_files: int
    shared_memory: int  # bytes of /dev/shm, 0 if there is none

    @classmethod
    def here(cls, work: Path) -> Machine:
        """Look at this machine, and the disk of a work folder that may not be there yet."""
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        properties = [torch.cuda.get_device_properties(index) for index in range(count)]
        there = next(path for path in (work.resolve(), *work.resolve().parents) if path.exists())
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        shared = shutil.disk_usage(_SHARED_MEMORY).total if _SHARED_MEMORY.is_dir() else 0
        return cls(
            torch=torch.__version__,
            cuda=torch.version.cuda,
            gpus=tuple(
                Gpu(gpu.name, gpu.total_memory, (gpu.major, gpu.minor)) for gpu in properties
            ),
            free_disk=shutil.disk_usage(there).free,
            memory=available_bytes(),
            open_files=sys.maxsize if limit == resource.RLIM_INFINITY else limit,
            shared_memory=shared,
        )

    def summary(self) -> str:
        """Say it in a line."""
        names = sorted({gpu.name for gpu in self.gpus})
        gpus = f"{len(self.gpus)} GPUs ({', '.join(names)})" if self.gpus else "no GPU"
        return (
            f"torch {self.torch}, CUDA {self.cuda or 'none'}, {gpus}, {self.free_disk / 1e9:,.1f} "
            f"GB of disk, {self.memory / 1e9:,.1f} GB of memory, {self.open_files:,} open files, "
            f"{self.shared_memory / 1e9:,.1f} GB of /dev/shm"
        )
