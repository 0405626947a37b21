"""A training of two processes, of which the second one lacks something; started by torchrun.

Arguments: a data folder, a run folder, and what it lacks in the third update: `compiler`, or
`memory` to sum the gradient. With `compiler at the start`, it knows before it trains.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
import torch.distributed as dist
from mishaps import pretend_to_compile
from torch import Tensor
from torch._inductor.exc import InductorError
from toy_training import settings_of

from nmt.cli import main as nmt
from nmt.distributed import Pending, Ranks
from nmt.training import auto_values, update
from nmt.training.loss import losses_of


def main(data: str, out: str, lack: str) -> None:
    patch = pytest.MonkeyPatch()
    start_sum, left = Ranks.start_sum, [5]

    def fail(*arguments: Any, **options: Any) -> tuple[Tensor, ...]:
        left[0] -= 1
        if left[0] == 0 and lack == "compiler":
            raise InductorError(RuntimeError("Failed to find C compiler"), None)
        return losses_of(*arguments, **options)

    def fail_to_sum(self: Ranks, tensor: Tensor, *, on: int | None = None) -> Pending:
        if left[0] <= 0 and lack == "memory":
            raise dist.DistBackendError("NCCL error in: a.cpp\nFailed to CUDA calloc 64 bytes")
        return start_sum(self, tensor, on=on)

    is_second = os.environ["RANK"] == "1"
    problem = "no C compiler; install gcc" if is_second and lack.endswith("start") else ""
    pretend_to_compile(patch, problem)
    patch.setattr(auto_values, "_worth_compiling", lambda *_: "loss")
    if is_second:
        patch.setattr(update, "losses_of", fail)
        patch.setattr(Ranks, "start_sum", fail_to_sum)
    sys.argv = ["nmt", "train", data, "--out", out, *settings_of(dropout=0.0, max_updates=8)]
    nmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
