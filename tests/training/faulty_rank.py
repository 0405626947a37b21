"""A training of two processes, in one of which something goes wrong; started by torchrun.

Arguments: a data folder, a run folder, and what happens to rank 1 in its sixth update: `memory`
(there is none, once), `error` (a fault of the program) or `kill`.
"""

from __future__ import annotations

import os
import signal
import sys

from torch import Tensor
from toy_training import settings_of

from nmt.cli import main as nmt
from nmt.data.batches import Batch
from nmt.training.update import UpdateRunner


def main(data: str, out: str, fault: str) -> None:
    backward, left = UpdateRunner._backward, [12]

    def fail(self: UpdateRunner, batch: Batch, num_tokens: int) -> tuple[Tensor, Tensor]:
        left[0] -= 1
        if left[0] == 0 and self.ranks.rank == 1:
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError if fault == "memory" else ValueError("a fault of the program")
        return backward(self, batch, num_tokens)

    UpdateRunner._backward = fail  # type: ignore[method-assign]
    sys.argv = ["nmt", "train", data, "--out", out, *settings_of(dropout=0.0, save_every=2)]
    nmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
