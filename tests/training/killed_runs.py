"""Runs of `nmt` that are killed with SIGKILL and started again until one ends by itself.

    killed_runs.py INSTANT... train ...       killed once at each instant FILE:TIMES:WHEN, before or
                                              after the file gets its name for the so many-th time
    killed_runs.py SEED KILLS train ...       killed so many times, after times drawn at random; as
                                              often as a run ends before, the next one is begun

Of the random ones, runs go to `killed-0`, `killed-1` and so on in the folder of `--out`, after one
to `undisturbed` that is left alone. All of them save their state every 12 updates. One process
imports torch, and its children are the runs.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from mishaps import save_states_every

import nmt.training.train  # noqa: F401
from nmt.__main__ import main


def start(arguments: list[str], instant: str = "") -> int:
    """Start a run; return its process's id."""
    child = os.fork()
    if not child:
        if instant:
            die_at(*instant.split(":"))
        sys.argv[1:] = arguments
        main()
    return child


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(name: str, times: str, when: str) -> None:
    replace, left = os.replace, [int(times)]

    def replace_and_die(source: Path, target: Path) -> None:
        left[0] -= Path(target).name == name
        if left[0] or when == "after":
            replace(source, target)
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace_and_die  # type: ignore[assignment]


def kill_at_random(seed: int, kills: int, arguments: list[str]) -> None:
    *arguments, out = arguments
    draw, finished, began = random.Random(seed), 0, time.monotonic()
    assert wait(start([*arguments, f"{out}/undisturbed"])) == 0
    whole = time.monotonic() - began
    while True:
        child = start([*arguments, f"{out}/killed-{finished}"])
        if kills:
            time.sleep(draw.uniform(0, whole))
            os.kill(child, signal.SIGKILL)
        status = wait(child)
        assert status == 0 or (kills and status == -signal.SIGKILL), status
        if status:
            kills -= 1
            continue
        finished += 1
        if not kills:
            return


if __name__ == "__main__":
    save_states_every(pytest.MonkeyPatch(), 12)
    place = sys.argv.index("train")
    plan, command = sys.argv[1:place], sys.argv[place:]
    if plan[0].isdecimal():
        kill_at_random(int(plan[0]), int(plan[1]), command)
    else:
        for one in plan:
            assert wait(start(command, one)) == -signal.SIGKILL, one
        assert wait(start(command)) == 0
