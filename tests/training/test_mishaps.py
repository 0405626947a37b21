"""What happens to a run, where and to whom, and what it must then do: `MISHAPS` is the table.

Each run is started again, and ends as one to which nothing has happened. Damaged files and full
disks are in `test_faults.py`, and updates that go wrong in `test_recovery.py`.
"""

import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from command_line import Answer, Nmt
from mishaps import let_happen, pretend_to_compile, wait_for_saves
from processes import wait_until
from torch import nn
from toy_training import (
    FP32,
    Toy,
    assert_same_run,
    assert_same_state,
    assert_same_weights,
    environment,
    metrics,
    newest_state,
    python_command,
    run_command,
    status,
)
from warm_python import warm_python

from nmt.config.fields import Value
from nmt.models.model_file import ModelReader
from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.run_folder import RunFolder
from nmt.training import stop_request
from nmt.training.saving import Saver

NMT, TORCHRUN = "nmt", "torchrun"
BEGIN, FORWARD, VALIDATION = "as an update begins", "in a forward pass", "in a batch of validation"
SHORT: dict[str, Value] = FP32 | {"max_updates": 10}
SCORED = SHORT | {"validate_every": 4, "validate_metric": "bleu", "max_updates": 12}
COMPILED: dict[str, Value] = SHORT | {"compile": "true"}
RANKS: dict[str, Value] = FP32 | {"save_every": 2}
FOREVER: dict[str, Value] = RANKS | {"max_updates": 1_000_000}


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """What happens to a run of several processes, or of this one, and what the run must then do."""

    what: str = ""  # as `mishaps.happen` has it; empty: nothing
    place: str = FORWARD  # one of `mishaps.PLACES`
    update: int = 11  # from which on it happens
    rank: int = 1  # to whom
    ranks: int = 2
    by: str = TORCHRUN  # who starts the ranks
    restarts: int = 0
    then: str = ""  # the signal for who has started the ranks, once update 10 is saved
    words: tuple[str, ...] = ()  # more arguments of `nmt train`
    values: dict[str, Value] = field(default_factory=lambda: RANKS)
    is_slow: bool = True
    # What comes of it:
    exits: int = 1  # torchrun's status, if any of its processes fails or stops
    said: tuple[str, ...] = ()  # patterns on stderr
    status: str = ""  # of status.json; empty: any
    reason: str = ".*"  # the pattern of that in it
    saved: int | None = None  # the update of the newest state; None: any
    validated: list[int] | None = None  # updates; None: any

    def __str__(self) -> str:
        if self.ranks == 1:
            return f"{self.what} {self.place} {self.update}"
        to = f"{self.what} to rank {self.rank} of {self.ranks} by" if self.what else "ranks by"
        then = self.then and f"then {self.then}"
        restarts = self.restarts and f"{self.restarts} restarts"
        return " ".join(map(str, filter(None, [to, self.by, *self.words, then, restarts])))


def alone(what: str, place: str, update: int, saved: int | None, **others: Any) -> Mishap:
    """Return a request for which the one process stops with all saved."""
    usual: dict[str, Any] = {"words": ("--time-limit", "1000"), "values": SHORT}
    usual |= {"ranks": 1, "is_slow": False, "exits": 75, "status": "stopped", "reason": what}
    return Mishap(what=what, place=place, update=update, saved=saved, **usual | others)


def at_once(what: str, place: str, update: int, saved: int | None, **others: Any) -> Mishap:
    """Return a request for which the one process ends at once, with what was saved before."""
    reason = rf"interrupted \({what.split()[0]}\).*"
    return alone(what, place, update, saved, reason=reason, **others)


def lost(what: str, rank: int, *said: str, **others: Any) -> Mishap:
    """Return the loss of a rank, for which all of them end."""
    if rank:  # the first one writes what it was saving, and why the run has ended
        others = {"status": "failed", "reason": f".*{said[0]}.*", "saved": 10} | others
    told = rf"nmt: (rank \d: error|error|warning): {said[0]}"
    return Mishap(what=what, rank=rank, said=(told, *said), **others)


GONE, KILLED = "another process is gone", "process {} was ended by SIGKILL"
MISHAPS = [
    # Every signal, and every place.
    alone("SIGINT", BEGIN, 4, saved=3),
    alone("SIGUSR1", FORWARD, 5, saved=4, values=SCORED, validated=[4]),
    # Update 8 is saved and validated, so that the checkpoint is there before its metrics are.
    alone("time limit", VALIDATION, 8, saved=8, values=SCORED, validated=[4]),
    alone("SIGHUP", "in a step of beam search", 8, saved=8, values=SCORED, validated=[4]),
    alone("SIGTERM", "as validation begins", 10, saved=10, validated=[7]),
    at_once("SIGTERM", "as memory is tried", 0, saved=None, values=COMPILED),
    at_once("SIGTERM", "in a backward pass", 1, saved=0, values=COMPILED),  # the first is compiled
    at_once("SIGINT SIGINT", VALIDATION, 4, saved=2, values=SCORED),
    at_once("SIGINT SIGINT", BEGIN, 5, saved=2, values=SCORED),
    lost("a fault", 1, "rank 1 failed: ValueError: a fault of"),
    lost("a fault", 1, "rank 1 failed: ValueError", by=NMT),
    lost("a fault", 0, "rank 0 failed: ValueError", ranks=3),
    lost("SIGKILL", 1, GONE, is_slow=False),
    lost("SIGKILL", 1, GONE, KILLED.format(1), by=NMT, is_slow=False),
    lost("SIGKILL", 0, KILLED.format(0), by=NMT),
    lost("SIGKILL", 0, GONE, ranks=3),
    lost("SIGSTOP", 1, "no sign.* from rank 1"),
    lost("SIGSTOP", 1, "no sign.* from rank 1", KILLED.format(1), by=NMT),
    lost("SIGSTOP", 0, "no sign.* from rank 0", ranks=3),
    lost("SIGINT SIGINT", 1, "rank 1 was stopped: SIGINT", status="stopped"),
    # All stop, also if only one is asked to, or one hangs.
    Mishap(what="SIGTERM", by=NMT, exits=75, said=(r"stopped at update 1[01] \(SIGTERM\)",)),
    *(Mishap(what="SIGSTOP", then="SIGTERM", by=by) for by in (NMT, TORCHRUN)),
    *(
        Mishap(then=name, values=FOREVER, status="stopped", reason=name)
        for name in ("SIGTERM", "SIGUSR1")
    ),
    *(
        Mishap(
            words=("--time-limit", minutes),
            values=FOREVER,
            status="stopped",
            reason="time limit",
            restarts=restarts,
        )
        for minutes, restarts in (("0.1", 0), ("0.05", 2))
    ),
    # What stops stays stopped though torchrun starts it again, and what has failed goes on.
    Mishap(what="SIGTERM", restarts=2, status="stopped", reason="SIGTERM"),
    Mishap(what="SIGKILL", restarts=1, exits=0, status="finished"),
]


@pytest.fixture(scope="module")
def undisturbed_ranks() -> dict[tuple[int, int], Path]:
    """Undisturbed runs of several processes, by their number and the last update."""
    return {}


@pytest.mark.parametrize(
    "mishap",
    [
        pytest.param(one, id=str(one), marks=[pytest.mark.slow] if one.is_slow else [])
        for one in MISHAPS
    ],
)
def test_a_run_ends_as_it_should_and_goes_on_bit_for_bit(
    nmt: Nmt, toy: Toy, undisturbed_ranks: dict[tuple[int, int], Path], mishap: Mishap
) -> None:
    run = toy.folder / "run"
    answer = disturb(mishap, toy, nmt) if mishap.ranks == 1 else disturb_ranks(mishap, toy)
    assert answer.status == mishap.exits, answer.stderr
    for pattern in mishap.said:
        assert re.search(pattern, answer.stderr), answer.stderr
    stays_stopped = re.findall(rf"nmt: warning: torchrun .*\({mishap.reason}\)", answer.stderr)
    assert len(stays_stopped) == (mishap.restarts if mishap.status == "stopped" else 0)
    found = status(run)
    assert found["status"] == (mishap.status or found["status"])
    assert re.fullmatch(mishap.reason, found["reason"], re.DOTALL)
    if mishap.saved is not None:
        assert newest_state(run)[0]["progress"]["update"] == mishap.saved
    if mishap.validated:
        assert [record["update"] for record in metrics(run, "valid")] == mishap.validated
    if mishap.ranks == 1:
        assert found["update"] == (mishap.saved or 0)
        if mishap.reason == mishap.what:
            assert f"stopped at update {mishap.saved} ({mishap.what})" in answer.stderr
            assert ModelReader(run / "last.safetensors").card.update == mishap.saved
        toy.train(**mishap.values)
        assert_same_run(run, toy.undisturbed(**mishap.values))
        return
    updates = found["update"] + 5 if mishap.values is FOREVER else 30
    expected = undisturbed_ranks.setdefault((mishap.ranks, updates), toy.folder / "expected")
    for out in (run, expected):
        if out == run or not expected.exists():
            toy.train_with(mishap.ranks, out, **mishap.values | {"max_updates": updates})
    assert status(run)["status"] == "finished"
    assert_same_weights(run, expected)
    assert_same_state(run, expected)
    assert not list(run.rglob("*.partial"))


def disturb(mishap: Mishap, toy: Toy, nmt: Nmt) -> Answer:
    """Let something happen to a training in this process, which only believes that it compiles."""
    pretend_to_compile(toy.patch)
    toy.patch.setattr(nn.Module, "compile", lambda *_, **__: None)
    toy.patch.setenv("PYTHON_EXEC", warm_python())  # which draws the curves
    with toy.patch.context() as patch:
        wait_for_saves(patch)
        is_cut_off = mishap.reason != mishap.what
        patch.setattr(Saver, "is_due", lambda _, update: is_cut_off and update == mishap.saved)
        patch.setattr(stop_request, "_SAME_CTRL_C", -1.0)  # torchrun passes none on here
        visits = let_happen(patch, mishap.what, mishap.place, update=mishap.update)
        answer = nmt(*toy.words("run", *mishap.words, **mishap.values))
    assert len(visits) == 1  # nothing more was begun
    return answer


def disturb_ranks(mishap: Mishap, toy: Toy) -> Answer:
    """Let something happen to one of several processes, or to all of them."""
    happens = {name: getattr(mishap, name) for name in ("what", "place", "update", "rank")}
    words = toy.disturbed(happens, *mishap.words, **mishap.values)
    if mishap.by == NMT:
        command = python_command(Path(__file__).with_name("launched.py"), str(mishap.ranks), *words)
    else:
        command = python_command(f"--max-restarts={mishap.restarts}", *words, ranks=mishap.ranks)
    folder = RunFolder(toy.folder / "run")
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3"},
    ) as started:
        if mishap.then:
            wait_until(lambda: max(updates_of(folder, STATE), default=0) >= 10, "update 10")
            started.send_signal(signal.Signals[mishap.then])
        said = started.communicate(timeout=900)[1]  # without a lost rank, they wait 20 minutes
    return Answer(started.returncode, "", said)


# --- killed at any instant

INSTANTS = [
    ("before", "config.toml", 1),  # before it is a run
    ("before", "update-00000000.state", 1),  # before there is any state
    ("after", "best-00000007.safetensors", 1),  # which the newest state does not know
    ("after", "last.safetensors", 1),  # with a checkpoint that the newest state does not know
    ("before", "update-00000012.state", 1),  # by the clock
    ("after", "update-00000016.safetensors", 1),  # to be made again from update 12
    ("before", "last.safetensors", 2),  # at update 24, between checkpoint and state
    ("after", "update-00000024.state", 1),  # before older ones are removed
    ("before", "update-00000036.state", 1),  # after the last validation and the last model
    ("after", "update-00000036.state", 1),  # which is due by the clock, too
    ("before", "status.json", 2),  # when all is done but to say so
]
"""When a file gets its name, for the so many-th time since the run was started again."""


def kill_or_finish(toy: Toy, happens: dict[str, Any], **values: Value) -> bool:
    """Train until the end or a kill; tell whether it was killed."""
    done = run_command(python_command(*toy.disturbed(happens | {"every": 12}, **values)))
    assert done.returncode in (0, -signal.SIGKILL, -signal.SIGALRM), done.stderr
    return done.returncode != 0


def test_a_run_killed_as_files_get_their_names_goes_on_bit_for_bit(toy: Toy) -> None:
    values = FP32 | {"max_updates": 36}
    for when, name, times in INSTANTS:
        happens = {"what": "SIGKILL", "place": name, "times": times, "after": when == "after"}
        assert kill_or_finish(toy, happens, **values), (when, name)
    assert not kill_or_finish(toy, {}, **values)
    assert_same_run(toy.folder / "run", toy.undisturbed(**values))


@pytest.mark.parametrize(
    ("kills", "seed", "ema_decay", "updates"),
    [
        (2, 11, 0.9, 16),
        pytest.param(25, 12, 0.9, 60, marks=pytest.mark.slow),
        pytest.param(25, 13, 0.0, 60, marks=pytest.mark.slow),
    ],
)
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(
    toy: Toy, kills: int, seed: int, ema_decay: float, updates: int
) -> None:
    # Records are of whole windows also after a save, so that all their metrics can be compared.
    values = FP32 | {"ema_decay": ema_decay, "log_every": 4, "max_updates": updates}
    values["validate_metric"] = "bleu"
    run, draw, began = toy.folder / "run", Random(seed), time.monotonic()
    assert not kill_or_finish(toy, {}, **values)
    whole, undisturbed = time.monotonic() - began, run.rename(toy.folder / "undisturbed")
    is_over = False
    while not is_over:  # a run that ends before it is killed is the first of several
        seconds = draw.uniform(0, whole) if kills else 0.0
        if kill_or_finish(toy, {"seconds": seconds}, **values):
            kills -= 1
        else:
            assert_same_run(run, undisturbed)
            is_over = not kills
            shutil.rmtree(run)
