"""The processes of one training run: the only door to torch.distributed.

Alone, every operation is free. Under torchrun the processes find each other by its environment
variables; tensors on CPUs travel by gloo, on GPUs by NCCL.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from nmt.errors import DataError, NMTError, Stopped, UsageError


@dataclass(frozen=True)
class Ranks:
    """This process among the processes of the run."""

    rank: int
    local_rank: int
    local_world_size: int
    world_size: int

    @classmethod
    def from_environment(cls) -> Ranks:
        """Read what torchrun says; one process alone without it."""
        return cls(
            rank=int(os.environ.get("RANK", "0")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
            world_size=int(os.environ.get("WORLD_SIZE", "1")),
        )

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.rank == 0

    def join(self) -> None:
        """Meet the other processes."""
        if self.world_size > 1:
            # Its functions take the group that stands at their import for a default. The optimiser
            # imports them; by then they would hold our group, and keep its threads alive until
            # Python has ended, where now and then one aborts the process.
            importlib.import_module("torch.distributed.nn.functional")
            gpu = ",cuda:nccl" if torch.cuda.is_available() else ""
            dist.init_process_group(f"cpu:gloo{gpu}")

    def leave(self) -> None:
        """Part from the other processes."""
        if self.world_size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over ranks, in place."""
        if self.world_size > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast_(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by rank 0's, in place."""
        if self.world_size > 1:
            dist.broadcast(tensor, src=0)
        return tensor

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set on any rank."""
        return flag if self.world_size == 1 else bool(self.sum_(torch.tensor(int(flag))).item())

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.any(False)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Let an expected error of any rank in this block be raised on all of them.

        Without it the others would wait for a rank that has gone. No rank may use another
        collective operation inside the block.
        """
        problem: NMTError | None = None
        try:
            yield
        except NMTError as error:
            problem = error
        except OSError as error:
            problem = NMTError(f"{error.filename or 'writing'}: {error.strerror or error}")
        found = self.gather(None if problem is None else [type(problem).__name__, str(problem)])
        if problem is not None:
            raise problem
        for rank, report in enumerate(found):
            if report is not None:
                kinds = {kind.__name__: kind for kind in (UsageError, DataError, Stopped)}
                raise kinds.get(report[0], NMTError)(f"rank {rank}: {report[1]}")

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's JSON value, in order of rank, on every rank."""
        if self.world_size == 1:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(data)]))
        longest = int(max(sizes))
        padded = torch.nn.functional.pad(data, (0, longest - len(data)))
        parts = [torch.empty(longest, dtype=torch.uint8) for _ in sizes]
        dist.all_gather(parts, padded)
        return [
            json.loads(part[: int(size)].numpy().tobytes())
            for part, size in zip(parts, sizes, strict=True)
        ]
