"""`nmt` in which something goes wrong once, in one of its processes.

    disturbed.py HAPPENS WORDS...

HAPPENS is a JSON object with arguments of `mishaps.let_happen`, if anything is to happen, and

- `rank`: to which process, if there are several;
- `every`: the state is saved whenever so many updates are done, 2 if it is not given;
- `late`: results are read an update later, as on a GPU;
- `seconds`: then SIGALRM kills the process.

Writing the state of update 10 is slow. If a process hangs, those without signs of life are lost
after `WAIT` seconds. All goes well when torchrun starts the processes again.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping

import pytest
from mishaps import let_happen, save_states_every
from torch import Tensor

from nmt.__main__ import main as nmt
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.runs.run_folder import RunFolder
from nmt.system import signs_of_life
from nmt.training import stop_request, trainer

WAIT = 40.0  # also for a slow start


def main(happens: str, *words: str) -> None:
    patch, mishap = pytest.MonkeyPatch(), json.loads(happens)
    rank = str(mishap.pop("rank", 0))
    write_state = checkpoint.write_state

    def write_slowly(run: RunFolder, state: RunState, vectors: Mapping[str, Tensor]) -> None:
        if state.update == 10:
            time.sleep(1.5)
        write_state(run, state, vectors)

    save_states_every(patch, mishap.pop("every", 2))
    patch.setattr(checkpoint, "write_state", write_slowly)
    if mishap.get("what") == "SIGSTOP":
        patch.setattr(signs_of_life, "EVERY", WAIT / signs_of_life._MOST_MISSED)
    patch.setattr(stop_request, "_SAME_CTRL_C", -1.0)  # torchrun passes none on here
    if mishap.pop("late", False):
        patch.setitem(trainer._UNREAD, "cpu", 1)
    signal.setitimer(signal.ITIMER_REAL, mishap.pop("seconds", 0))
    is_first_start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if mishap.get("what") and is_first_start and os.environ.get("RANK", rank) == rank:
        let_happen(patch, **mishap)
    sys.argv = ["nmt", *words]
    nmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
