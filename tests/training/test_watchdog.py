"""Ranks that fail, fall silent or are slow: what the others say, and what is saved."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from toy_training import Toy, assert_same_state, assert_same_weights, environment, status

from nmt.distributed import RankLost, RankStopped
from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.run_folder import RunFolder
from nmt.training.watchdog import Observations, ending

# --- what a watchdog makes of what it sees

LOST = RankLost("rank 1 failed: no", [1])
SEEN = Observations(machines=["0", "0", "0", "1"])


@pytest.mark.parametrize(
    ("seen", "exit_status", "said"),
    [
        # Nothing is wrong, or it is slow: the others of a rank that is busy wait for long.
        (SEEN, None, ""),
        (replace(SEEN, stuck=3600.0), None, ""),
        (replace(SEEN, stuck=3600.0, silent={1: 4.0, 2: 0.0}), None, ""),
        # A silent rank matters to one that waits for it.
        (replace(SEEN, stuck=1.0, silent={1: 3600.0}), None, ""),
        (replace(SEEN, stuck=130.0, silent={1: 60.0}), None, ""),
        (
            replace(SEEN, stuck=130.0, silent={1: 125.0, 2: 0.0}),
            1,
            "rank 1 .*silent .*125 ",
        ),
        (
            replace(SEEN, stuck=130.0, silent={1: 125.0, 2: 130.0}),
            1,
            "rank 1, 2 .*silent .*125 ",
        ),
        # It is given up soon if the run was asked to stop, as torchrun kills after 30 seconds.
        (replace(SEEN, stuck=9.0, silent={1: 9.0}, asked=9.0, reason="SIGTERM"), None, ""),
        # The request may come from torchrun, because a rank has just given up the silent one.
        (replace(SEEN, stuck=119.0, silent={1: 119.0}, asked=0.1, reason="SIGTERM"), None, ""),
        (
            replace(SEEN, stuck=11.0, silent={1: 11.0}, asked=6.0, reason="SIGTERM"),
            75,
            r"stopped \(SIGTERM\) .*rank 1 .*silent .*11 ",
        ),
        # A machine of which nobody is heard is lost. Then torchrun stops the others.
        (
            replace(SEEN, stuck=11.0, silent={1: 11.0, 3: 12.0}, asked=6.0, reason="SIGTERM"),
            1,
            "rank 1, 3 .*silent .*11 ",
        ),
        (replace(SEEN, stuck=25.0, silent={1: 1.0}, asked=25.0, reason="SIGTERM"), None, ""),
        # A rank that failed counts, also if torchrun has passed on a signal; the main thread comes
        # first.
        (replace(SEEN, stuck=2.0, lost=LOST), None, ""),
        (replace(SEEN, stuck=6.0, lost=LOST), 1, "rank 1 failed: no"),
        (
            replace(SEEN, stuck=6.0, lost=LOST, asked=6.0, reason="SIGTERM"),
            1,
            "rank 1 failed: no",
        ),
        (
            replace(SEEN, stuck=6.0, lost=RankStopped("rank 1 was stopped (SIGINT)")),
            75,
            "rank 1 .*stopped",
        ),
        # If the store hangs or is gone, a rank may still go on.
        (replace(SEEN, stuck=3600.0, store_silent=3600.0), None, ""),
        # torchrun's own end ends the processes; after a request to stop the store goes, too.
        (
            replace(SEEN, stuck=20.0, store_silent=25.0, asked=12.0),
            1,
            "torchrun",
        ),
        (replace(SEEN, stuck=20.0, store_silent=11.0, asked=12.0), None, ""),
    ],
)
def test_a_process_ends_only_if_it_waits_in_vain(
    seen: Observations, exit_status: int | None, said: str
) -> None:
    found = ending(seen)
    assert (found and found.exit_status) == exit_status
    if found:
        assert re.match(said, found.line)


def test_silence_is_counted_while_others_can_be_heard() -> None:
    seen = Observations.of(0, machines=["0", "0"])

    def add(seconds: float, *, rounds: int, beat: str, moves: int = 0) -> Observations:
        seen.add(seconds, moves=(moves,), rounds=rounds, beats=["1 5", beat])
        return seen

    assert add(1.0, rounds=1, beat="1 4").silent[1] == 0
    assert add(1.0, rounds=2, beat="2 4").silent[1] == 0
    assert add(1.0, rounds=3, beat="2 4").silent[1] == 1
    assert re.match("rank 1 .*busy .*2 seconds", seen.describe_busiest())
    # The store hangs: that says nothing of the other rank.
    for seconds in range(1, 51):
        assert add(1.0, rounds=3, beat="2 4").silent[1] == 1
        assert seen.store_silent == seconds
    add(1.0, rounds=4, beat="2 4")
    assert (seen.silent[1], seen.store_silent) == (5, 0)
    assert seen.stuck == 53
    assert add(1.0, rounds=5, beat="over", moves=1).silent[1] == 0
    assert seen.stuck == 0
    assert add(100.0, rounds=6, beat="over", moves=1).silent[1] == 0  # it ended


# --- runs


def exit_statuses(toy: Toy) -> dict[int, int]:
    """Return how the ranks ended that were not killed."""
    return {
        int(path.suffix[1:]): json.loads(path.read_text()) for path in toy.folder.glob("exit.*")
    }


def lines_of(stderr: str, rank: int) -> list[str]:
    """Return a rank's errors."""
    return [line for line in stderr.splitlines() if line.startswith(f"nmt: rank {rank}: error: ")]


def newest_update(toy: Toy) -> int:
    """Return the update of the newest state."""
    return max(updates_of(RunFolder(toy.folder / "run"), STATE))


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


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("ranks", "faults"),
    [
        (2, [("error", 1), ("kill-stuck", 1)]),
        pytest.param(2, [("early", 1), ("kill", 0), ("exit-stuck", 1)], marks=SLOW),
        pytest.param(2, [("kill-compiling", 1), ("error-compiling", 0)], marks=SLOW),
        pytest.param(3, [("error-stuck", 2), ("kill", 1)], marks=SLOW),
        pytest.param(3, [("kill-stuck", 0), ("exit", 0)], marks=SLOW),
    ],
)
def test_a_rank_that_fails_stops_the_others_which_say_why(
    toy: Toy, at_once: dict[int, Path], ranks: int, faults: list[tuple[str, int]]
) -> None:
    for fault, rank in faults:
        what = "failed: ValueError: a fault of the" if "error" in fault else "is gone without a"
        done = toy.train_with_fault(fault, rank, ranks=ranks)
        assert done.returncode == 1
        left = {other: 1 for other in range(ranks) if other != rank}
        assert left.items() <= exit_statuses(toy).items()
        for other in left:
            (line,) = lines_of(done.stderr, other)
            assert f"rank {rank} {what}" in line
        if fault != "early":  # there is no run yet
            found = status(toy.folder / "run")
            assert (found["status"], f"rank {rank} {what}" in found["reason"]) == ("failed", True)
            # What the first rank was writing at the first fault is written.
            if rank and (fault, rank) == faults[0]:
                assert newest_update(toy) == 10
    # What was saved is whole, and the run goes on from there.
    assert_resumes(toy, ranks, at_once)


@SLOW
@pytest.mark.parametrize(("ranks", "rank"), [(2, 1), (3, 0)])
def test_a_suspended_rank_is_given_up(
    toy: Toy, at_once: dict[int, Path], ranks: int, rank: int
) -> None:
    done = toy.train_with_fault("suspend", rank, ranks=ranks)
    assert done.returncode == 1
    assert exit_statuses(toy) == {other: 1 for other in range(ranks) if other != rank}
    for other in exit_statuses(toy):
        (line,) = lines_of(done.stderr, other)
        assert re.search(rf"rank {rank} .*silent .*\d+ seconds", line)
    found = status(toy.folder / "run")
    assert (found["status"], f"rank {rank} has been" in found["reason"]) == ("failed", True)
    assert_resumes(toy, ranks, at_once)


@SLOW
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_slow_rank_is_waited_for(toy: Toy, ranks: int) -> None:
    done = toy.train_with_fault("slow", 1, ranks=ranks)  # for longer than a rank may be silent
    assert done.returncode == 0, done.stderr
    assert status(toy.folder / "run")["status"] == "finished"
    toy.train_with(ranks, "at once", dropout=0.0, save_every=2)
    assert_same_state(toy.folder / "run", toy.folder / "at once")


@SLOW
@pytest.mark.parametrize(
    ("ranks", "fault", "rank", "what"),
    [
        (2, "suspend", 1, "silent"),
        (3, "suspend", 0, "silent"),
        (2, "busy", 1, "busy"),
        (3, "busy", 0, "busy"),
    ],
)
def test_a_stop_is_told_although_no_rank_can_answer(
    toy: Toy, at_once: dict[int, Path], ranks: int, fault: str, rank: int, what: str
) -> None:
    run, patience = toy.folder / "run", {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "8"}
    command = toy.fault_command(fault, rank, ranks=ranks)
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment() | patience
    ) as started:
        while not (toy.folder / "fault").exists():
            time.sleep(0.1)
        time.sleep(0.5)
        started.send_signal(signal.SIGTERM)
        stderr = started.communicate(timeout=60)[1]
    assert started.returncode != 0  # 1, or torchrun aborts once it has killed its processes
    said = rf"rank {rank} has been {what} for \d+ seconds"
    found = status(run)
    assert (found["status"], found["update"]) == ("stopped", newest_update(toy))
    # A suspended process writes nothing more.
    assert newest_update(toy) == (8 if (fault, rank) == ("suspend", 0) else 10)
    reason = rf"interrupted \(SIGTERM; {said}.*\)"
    assert re.match(reason, found["reason"])
    if what == "silent":  # nobody waits for it to be killed
        assert exit_statuses(toy) == {other: 75 for other in range(ranks) if other != rank}
        assert re.search(rf"error: .*\(SIGTERM\) .*{said}", stderr)
    else:  # a process that is slow might still save
        assert exit_statuses(toy) == {}
        assert re.search(rf"nmt: warning: .*\(SIGTERM\), .*{said}", stderr)
    assert_resumes(toy, ranks, at_once)


@SLOW
def test_a_rank_that_is_stopped_at_once_stops_the_other(toy: Toy) -> None:
    done = toy.train_with_fault("interrupt")
    assert done.returncode == 1  # torchrun's
    assert re.search(r"nmt: warning: rank 1 .*\(SIGINT\)", done.stderr)
    assert status(toy.folder / "run")["status"] == "stopped"
    assert not [line for line in done.stderr.splitlines() if re.match(r"nmt: .*error", line)]


# --- torchrun --max-restarts


@SLOW
@pytest.mark.parametrize("how", ["signal", "--time-limit"])
def test_a_stopped_run_stays_stopped_though_torchrun_starts_it_again(
    toy: Toy, at_once: dict[int, Path], how: str
) -> None:
    run = toy.folder / "run"
    more = [how, "0.05", "--set", "max_updates=1000000"] if how == "--time-limit" else []
    fault = "signal" if how == "signal" else "none"
    command = toy.fault_command(fault, 1, *more, ranks=2, torchrun=["--max-restarts=2"])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 1
    found = status(run)
    reason = "SIGTERM" if how == "signal" else "time limit"
    assert (found["status"], found["reason"]) == ("stopped", reason)
    assert len(re.findall(rf"nmt: warning: torchrun .*\({reason}\)", done.stderr)) == 2
    assert exit_statuses(toy) == {0: 75, 1: 75}
    if how == "signal":  # a later launch is not stopped
        assert_resumes(toy, 2, at_once)


@SLOW
@pytest.mark.parametrize("fault", ["kill-stuck", "error", "suspend"])
def test_a_failed_run_goes_on_when_torchrun_starts_it_again(
    toy: Toy, at_once: dict[int, Path], fault: str
) -> None:
    done = toy.train_with_fault(fault, torchrun=["--max-restarts=1"])
    assert done.returncode == 0, done.stderr
    assert len(lines_of(done.stderr, 0)) == 1
    assert_resumes(toy, 2, at_once)
