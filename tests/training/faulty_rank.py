"""A training of some processes, in one of which something goes wrong; started by torchrun.

Arguments: a data folder, a run folder, what happens in the eleventh update, to which rank, and more
arguments of `nmt train`. What happens is `memory` (there is none, once), `late` (likewise, and
verdicts are read late as on a GPU), `error` (a fault of the program), `kill`, `exit` (with 0, and
without a word), `suspend` (SIGSTOP), `slow` (for longer than others may be silent), `busy` (for
longer than torchrun waits, and deaf to signals), `signal` (SIGTERM to it only), `interrupt` (Ctrl-C
twice), or, in updates 10 to 14, `nan` (its gradient is no number, the first time). `early`: killed
before training begins.

With `-stuck`, as in `kill-stuck`, the others wait for it as in NCCL: deaf to signals, and without
an error. With `-compiling` they seem to compile their layers, which a signal interrupts. There is
no fault when torchrun starts the processes again. Beside the run, the file `fault` shows that it
has happened, and `exit.RANK` how each rank has ended. The state of update 10 is written slowly.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
from mishaps import save_states_every
from torch import Tensor
from toy_training import settings_of

from nmt.cli import main as nmt
from nmt.data.updates import Update
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.runs.run_folder import RunFolder
from nmt.training import open_values, stop, trainer, watchdog
from nmt.training import update as update_module
from nmt.training.loss import losses_of
from nmt.training.stop import StopRequest
from nmt.training.update import UpdateResult, UpdateRunner

SILENT = 6.0  # seconds until a silent rank is given up


def be_stuck() -> None:
    """Wait forever as in an operation of NCCL: other threads run, and signals are not answered."""
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    for _ in range(2):
        libc.pthread_mutex_lock(mutex)


def happen(fault: str) -> None:
    match fault:
        case "exit":
            os._exit(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "suspend":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        case "interrupt":
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
        case "slow":
            time.sleep(2 * SILENT)
        case "busy":
            be_stuck()
        case "memory" | "late":
            raise MemoryError
        case "error":
            raise ValueError("a fault of the program")


def main(data: str, out: str, fault: str, rank: str, *more: str) -> None:
    patch = pytest.MonkeyPatch()
    run, begun = UpdateRunner.run, [0]
    poisoned, seen, stops = [False], set[int](), list[StopRequest]()
    fault, _, others = fault.partition("-")
    write_state = checkpoint.write_state
    is_faulty = os.environ["RANK"] == rank

    def poison(self: UpdateRunner, update: Update, number: int, *, save: bool) -> UpdateResult:
        poisoned[0] = number in range(10, 15) and number not in seen
        seen.add(number)
        return run(self, update, number, save=save)

    def lose(*arguments: Any, **options: Any) -> tuple[Tensor, ...]:
        loss, *rest = losses_of(*arguments, **options)
        # The gradient is no number then, and the sum over ranks spreads that.
        return loss * math.nan if poisoned[0] else loss, *rest

    def count(self: UpdateRunner, update: Update, number: int, *, save: bool) -> UpdateResult:
        begun[0] += 1
        stops.append(self.stop)
        return run(self, update, number, save=save)

    def fail(*arguments: Any, **options: Any) -> tuple[Tensor, ...]:
        if begun[0] == 11:
            begun[0] += 1
            if is_faulty:
                Path(out).with_name("fault").touch()
                happen(fault)
            elif others == "compiling":
                with stops[-1].at_once():
                    time.sleep(60)
            else:
                be_stuck()
        return losses_of(*arguments, **options)

    def write_slowly(run: RunFolder, state: RunState, vectors: Mapping[str, Tensor]) -> None:
        if state.update == 10:
            time.sleep(1.5)
        write_state(run, state, vectors)

    save_states_every(patch, 2)
    patch.setattr(checkpoint, "write_state", write_slowly)
    patch.setattr(watchdog, "_BEAT", 0.2)
    patch.setattr(watchdog, "_SILENT", SILENT)
    patch.setattr(watchdog, "_SILENT_IF_ASKED", SILENT / 2)
    patch.setattr(watchdog, "_STUCK", 1.0)
    patch.setattr(stop, "_SAME_CTRL_C", -1.0)  # torchrun passes none on here
    if fault == "late":
        patch.setitem(trainer._UNREAD, "cpu", 1)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and (is_faulty or others):
        if fault == "early":
            patch.setattr(open_values, "use_tf32", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        elif fault == "nan":
            patch.setattr(UpdateRunner, "run", poison)
            patch.setattr(update_module, "losses_of", lose)
        else:
            patch.setattr(UpdateRunner, "run", count)
            patch.setattr(update_module, "losses_of", fail)
    ending, leave = Path(out).with_name(f"exit.{os.environ['RANK']}"), os._exit

    def leave_at_once(code: int) -> NoReturn:
        ending.write_text(str(code))
        leave(code)

    patch.setattr(os, "_exit", leave_at_once)
    settings = settings_of(dropout=0.0, save_every=2)
    sys.argv = ["nmt", "train", data, "--out", out, *settings, *more]
    ending.unlink(missing_ok=True)
    code = 1  # of a traceback
    try:
        nmt()
    except SystemExit as end:
        code = int(end.code or 0)
        raise
    finally:
        ending.write_text(str(code))


if __name__ == "__main__":
    main(*sys.argv[1:])
