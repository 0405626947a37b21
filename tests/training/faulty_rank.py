"""A training of two processes, in one of which something goes wrong; started by torchrun.

Arguments: a data folder, a run folder, what happens in the sixth update, and to which rank:
`memory` (there is none, once), `late` (likewise, and verdicts are read late as on a GPU), `error`
(a fault of the program), `kill`, `interrupt` (Ctrl-C twice), or, in updates 10 to 14, `nan` (its
gradient is no number, the first time). `early`: killed before training begins.
"""

from __future__ import annotations

import math
import os
import signal
import sys

import pytest
from mishaps import save_states_every
from torch import Tensor
from toy_training import settings_of

from nmt.cli import main as nmt
from nmt.data.batches import Batch
from nmt.data.stream import Update
from nmt.training import settle, stop, trainer
from nmt.training.update import Outcome, UpdateRunner


def main(data: str, out: str, fault: str, rank: str) -> None:
    patch = pytest.MonkeyPatch()
    run, forward, left, seen = UpdateRunner.run, UpdateRunner._forward, [12], set[int]()

    def poison(self: UpdateRunner, update: Update, number: int, *, save: bool = False) -> Outcome:
        if number in range(10, 15) and number not in seen:
            seen.add(number)
            self.optimizer.weights.gradient[0] = math.nan  # which the sum over ranks spreads
        return run(self, update, number, save=save)

    def fail(self: UpdateRunner, batch: Batch) -> tuple[Tensor, ...]:
        left[0] -= 1
        if left[0] == 0:
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault == "interrupt":
                for _ in range(2):
                    os.kill(os.getpid(), signal.SIGINT)
            raise (
                MemoryError if fault in ("memory", "late") else ValueError("a fault of the program")
            )
        return forward(self, batch)

    save_states_every(patch, 2)
    patch.setattr(stop, "_SAME_CTRL_C", -1.0)  # torchrun passes none on here
    if fault == "late":
        patch.setitem(trainer._UNKNOWN, "cpu", 1)
    if os.environ["RANK"] == rank:
        if fault == "early":
            patch.setattr(settle, "use_library", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        elif fault == "nan":
            patch.setattr(UpdateRunner, "run", poison)
        else:
            patch.setattr(UpdateRunner, "_forward", fail)
    sys.argv = ["nmt", "train", data, "--out", out, *settings_of(dropout=0.0, save_every=2)]
    nmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
