"""A training of two processes, of which the second one lacks something; started by torchrun.

Arguments: a data folder, a run folder, and what it lacks in the third update: `compiler`, or
`memory` to sum the gradient. With `compiler at the start`, it knows before it trains.
"""

from __future__ import annotations

import os
import sys

import pytest
import torch.distributed as dist
from torch import Tensor
from torch._inductor.exc import InductorError
from toy_training import settings_of

from nmt.cli import main as nmt
from nmt.data.batches import Batch
from nmt.distributed import Pending, Ranks
from nmt.training import loss, settle
from nmt.training.update import UpdateRunner


def main(data: str, out: str, lack: str) -> None:
    patch = pytest.MonkeyPatch()
    forward, start_sum, left = UpdateRunner._forward, Ranks.start_sum, [5]

    def fail(self: UpdateRunner, batch: Batch) -> tuple[Tensor, ...]:
        left[0] -= 1
        if left[0] == 0 and lack == "compiler":
            raise InductorError(RuntimeError("Failed to find C compiler"), None)
        return forward(self, batch)

    def fail_to_sum(self: Ranks, tensor: Tensor, *, on: int | None = None) -> Pending:
        if left[0] <= 0 and lack == "memory":
            raise dist.DistBackendError("NCCL error in: a.cpp\nFailed to CUDA calloc 64 bytes")
        return start_sum(self, tensor, on=on)

    is_second = os.environ["RANK"] == "1"
    problem = "no C compiler; install gcc" if is_second and lack.endswith("start") else ""
    patch.setattr(settle, "problem_of_compiling", lambda _: problem)
    patch.setattr(settle, "_worth_compiling", lambda *_: "loss")
    patch.setattr(loss, "_compiled", lambda: loss._of_chunk)
    if is_second:
        patch.setattr(UpdateRunner, "_forward", fail)
        patch.setattr(Ranks, "start_sum", fail_to_sum)
    sys.argv = ["nmt", "train", data, "--out", out, *settings_of(dropout=0.0, max_updates=8)]
    nmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
