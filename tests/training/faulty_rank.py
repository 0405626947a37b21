"""A training of some processes, in one of which something goes wrong; started by torchrun.

Arguments: a data folder, a run folder, what happens in the eleventh update, to which rank, and more
arguments of `nmt train`. What happens is `memory` (there is none, once), `late` (likewise, and
verdicts are read late as on a GPU), `error` (a fault of the program), `kill`, `suspend` (SIGSTOP),
`signal` (SIGTERM to it only) or `interrupt` (Ctrl-C twice). With `suspend`, a rank without signs of
life is lost after `WAIT` seconds.

There is no fault when torchrun starts the processes again. Writing the state of update 10 is slow.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
from mishaps import WAIT, save_states_every
from torch import Tensor
from toy_training import settings_of

from nmt.__main__ import main as nmt
from nmt.data.updates import Update
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.runs.run_folder import RunFolder
from nmt.system import signs_of_life
from nmt.training import stop_request, trainer
from nmt.training import update as update_module
from nmt.training.loss import losses_of
from nmt.training.update import TrainStep, UpdateResult

_SIGNALS = {
    "kill": [signal.SIGKILL],
    "suspend": [signal.SIGSTOP],
    "signal": [signal.SIGTERM],
    "interrupt": [signal.SIGINT] * 2,
}


def main(data: str, out: str, fault: str, rank: str, *more: str) -> None:
    patch = pytest.MonkeyPatch()
    run, begun = TrainStep.run, list[int]()
    write_state = checkpoint.write_state

    def count(self: TrainStep, update: Update, number: int, *, save: bool) -> UpdateResult:
        begun.append(number)
        return run(self, update, number, save=save)

    def fail(*arguments: Any, **options: Any) -> tuple[Tensor, ...]:
        losses = losses_of(*arguments, **options)
        if len(begun) == 11:
            begun.append(0)
            for number in _SIGNALS.get(fault, ()):
                os.kill(os.getpid(), number)
            if fault in ("memory", "late"):
                raise MemoryError
            if fault == "error":
                raise ValueError("a fault of the program")
        return losses

    def write_slowly(run: RunFolder, state: RunState, vectors: Mapping[str, Tensor]) -> None:
        if state.update == 10:
            time.sleep(1.5)
        write_state(run, state, vectors)

    save_states_every(patch, 2)
    patch.setattr(checkpoint, "write_state", write_slowly)
    if fault == "suspend":
        patch.setattr(signs_of_life, "EVERY", WAIT / signs_of_life._MOST_MISSED)
    patch.setattr(stop_request, "_SAME_CTRL_C", -1.0)  # torchrun passes none on here
    if fault == "late":
        patch.setitem(trainer._UNREAD, "cpu", 1)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == rank:
        patch.setattr(TrainStep, "run", count)
        patch.setattr(update_module, "losses_of", fail)
    sys.argv = ["nmt", "train", data, "--out", out, *settings_of(dropout=0.0, save_every=2), *more]
    nmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
