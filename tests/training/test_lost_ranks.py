"""Ranks that fail, hang or are killed: all end in time, what was saved is whole, and runs go on."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from processes import LONG
from toy_training import Toy, assert_same_state, assert_same_weights, environment, status

from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.run_folder import RunFolder

SLOW = pytest.mark.slow
BY_NMT = None  # in place of options of torchrun


@pytest.fixture(scope="module")
def at_once() -> dict[int, Path]:
    """Undisturbed runs, by their number of processes."""
    return {}


def assert_resumes(toy: Toy, ranks: int, at_once: dict[int, Path]) -> None:
    """Check that a run ends as one that was never disturbed."""
    for out in ("run", "at once"):
        if out == "run" or ranks not in at_once:
            toy.train_with(ranks, out, dropout=0.0, save_every=2)
    run, expected = toy.folder / "run", at_once.setdefault(ranks, toy.folder / "at once")
    assert status(run)["status"] == "finished"
    assert_same_weights(run, expected)
    assert_same_state(run, expected)
    assert not list(run.rglob("*.partial"))


@pytest.mark.parametrize(
    ("ranks", "fault", "rank", "said"),
    [
        pytest.param(2, "error", 1, "rank 1 failed: ValueError: a fault of", marks=SLOW),
        (2, "kill", 1, "another process is gone"),
        pytest.param(3, "error", 0, "rank 0 failed: ValueError", marks=SLOW),
        pytest.param(3, "kill", 0, "another process is gone", marks=SLOW),
        pytest.param(2, "suspend", 1, "no sign.* from rank 1", marks=SLOW),
        pytest.param(3, "suspend", 0, "no sign.* from rank 0", marks=SLOW),
        pytest.param(2, "interrupt", 1, "rank 1 was stopped: SIGINT", marks=SLOW),
    ],
)
def test_a_rank_that_is_lost_ends_all_in_time_with_everything_saved(
    toy: Toy, at_once: dict[int, Path], ranks: int, fault: str, rank: int, said: str
) -> None:
    done = toy.train_with_fault(fault, rank, ranks=ranks)
    assert done.returncode == 1
    assert re.search(rf"nmt: (rank \d: error|error|warning): {said}", done.stderr)
    if rank:  # the first one writes what it was saving, and why the run has ended
        assert max(updates_of(RunFolder(toy.folder / "run"), STATE)) == 10
        found = status(toy.folder / "run")
        assert found["status"] == ("stopped" if fault == "interrupt" else "failed")
        assert re.search(said, found["reason"])
    assert_resumes(toy, ranks, at_once)


@pytest.mark.parametrize(
    ("fault", "rank", "status_of_all", "said"),
    [
        ("kill", 1, 1, ["another process is gone", "process 1 was ended by SIGKILL"]),
        pytest.param("error", 1, 1, ["rank 1 failed: ValueError"], marks=SLOW),
        pytest.param("kill", 0, 1, ["process 0 was ended by SIGKILL"], marks=SLOW),
        pytest.param("signal", 1, 75, ["stopped at update 1[01] .SIGTERM"], marks=SLOW),
        pytest.param(
            *("suspend", 1, 1),
            ["no sign.* from rank 1", "process 1 was ended by SIGKILL"],
            marks=SLOW,
        ),
    ],
)
def test_processes_of_ours_end_as_those_of_torchrun(
    toy: Toy,
    at_once: dict[int, Path],
    fault: str,
    rank: int,
    status_of_all: int,
    said: list[str],
) -> None:
    done = toy.train_with_fault(fault, rank, torchrun=BY_NMT)
    assert done.returncode == status_of_all, done.stderr
    for words in said:
        assert re.search(words, done.stderr)
    assert_resumes(toy, 2, at_once)


@SLOW
@pytest.mark.parametrize("torchrun", [(), BY_NMT], ids=["torchrun", "nmt"])
def test_a_stop_ends_all_in_time_though_a_rank_hangs(
    toy: Toy, at_once: dict[int, Path], torchrun: tuple[str, ...] | None
) -> None:
    command = toy.fault_command("suspend", 1, ranks=2, torchrun=torchrun)
    patience = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3"}
    with subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env=environment() | patience
    ) as started:
        run = RunFolder(toy.folder / "run")
        while max(updates_of(run, STATE), default=0) < 10:
            time.sleep(0.1)
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=LONG) != 0
    assert_resumes(toy, 2, at_once)


@SLOW
@pytest.mark.parametrize("how", ["signal", "--time-limit"])
def test_a_stopped_run_stays_stopped_though_torchrun_starts_it_again(
    toy: Toy, at_once: dict[int, Path], how: str
) -> None:
    more = [how, "0.05", "--set", "max_updates=1000000"] if how == "--time-limit" else []
    command = toy.fault_command(how, 1, *more, ranks=2, torchrun=["--max-restarts=2"])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 1
    found = status(toy.folder / "run")
    reason = "SIGTERM" if how == "signal" else "time limit"
    assert (found["status"], found["reason"]) == ("stopped", reason)
    assert len(re.findall(rf"nmt: warning: torchrun .*\({reason}\)", done.stderr)) == 2
    if how == "signal":  # a later launch is not stopped
        assert_resumes(toy, 2, at_once)


@SLOW
def test_a_failed_run_goes_on_when_torchrun_starts_it_again(
    toy: Toy, at_once: dict[int, Path]
) -> None:
    done = toy.train_with_fault("kill", torchrun=["--max-restarts=1"])
    assert done.returncode == 0, done.stderr
    assert_resumes(toy, 2, at_once)
