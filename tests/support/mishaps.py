"""What goes wrong in a run or job on purpose: signals, kills, full disks, no memory, bad gradients.

Each function patches nmt for the rest of a test, or of a process: see `training/disturbed.py`.
"""

import errno
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor

from nmt.data.batches import Batch
from nmt.errors import Stopped
from nmt.jobs.journal import Journal
from nmt.models.base import TranslationModel
from nmt.search import beam_search
from nmt.search.beam_search import decode
from nmt.training import autotune, loss, trainer, validation
from nmt.training import update as update_module
from nmt.training.loss import losses_of
from nmt.training.optimizer import Optimizer
from nmt.training.saving import Saver
from nmt.training.update import TrainStep
from nmt.training.validation import Validator

Action = Callable[[Optimizer, int], object]

PLACES: dict[str, tuple[object, str]] = {
    "as memory is tried": (trainer, "fitting_tokens"),
    "as an update begins": (TrainStep, "run"),
    "in a forward pass": (update_module, "losses_of"),
    "in a backward pass": (TrainStep, "_backward"),
    "as validation begins": (Validator, "measure"),
    "in a batch of validation": (validation, "losses_of"),
    "in a step of beam search": (beam_search, "top_tokens"),
}
ERRORS = {"no memory": MemoryError(), "a fault": ValueError("a fault of the program")}


def happen(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Let something happen now: signals by name, one of ERRORS, or "time limit", as if it came."""
    if what in ERRORS:
        raise ERRORS[what]
    if what == "time limit":
        later = time.monotonic() + 1_000_000
        monkeypatch.setattr(time, "monotonic", lambda: later)
        return
    for name in what.split():
        os.kill(os.getpid(), signal.Signals[name])


def let_happen(
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    place: str,
    *,
    update: int = 0,
    times: int = 1,
    after: bool = False,
) -> list[int]:
    """Let something happen once to this process, before it does something, or after it.

    what: see `happen`.
    place: one of PLACES, or the file that gets its name.
    update: the first one in which it may happen.
    times: how often the process is there until it happens.
    Returns a list to which each visit adds its update, from the one on at which it happened.
    """
    owner, name = PLACES.get(place, (os, "replace"))
    go, begin = getattr(owner, name), TrainStep.run
    begun, visits, left = [0], list[int](), [times]

    def go_or_not(*arguments: Any, **options: Any) -> Any:
        is_there = begun[0] >= update and (place in PLACES or Path(arguments[1]).name == place)
        left[0] -= is_there
        happens = is_there and left[0] == 0
        if is_there and left[0] <= 0:
            visits.append(begun[0])
        if happens and not after:
            happen(monkeypatch, what)
        result = go(*arguments, **options)
        if happens and after:
            happen(monkeypatch, what)
        return result

    def note(self: TrainStep, data: Any, number: int, **options: Any) -> Any:
        begun[0] = number
        return (go_or_not if go is begin else begin)(self, data, number, **options)

    monkeypatch.setattr(owner, name, go_or_not)
    monkeypatch.setattr(TrainStep, "run", note)
    return visits


def around_steps(
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Action = lambda *_: None,
    after: Action = lambda *_: None,
) -> None:
    """Do something right before or after every step of the optimiser, which is told its update.

    A step that is dropped does not count.
    """
    step = Optimizer.step

    def step_and_act(self: Optimizer, update: int, *, dropped: Tensor) -> Tensor:
        if not dropped:
            before(self, update)
        norm = step(self, update, dropped=dropped)
        if not dropped:
            after(self, update)
        return norm

    monkeypatch.setattr(Optimizer, "step", step_and_act)


def at_updates(
    monkeypatch: pytest.MonkeyPatch,
    actions: Mapping[int, Callable[[], object]],
    *,
    saves_first: bool = True,
) -> None:
    """Do something right after some updates' optimiser steps.

    saves_first: wait for all saves of earlier updates.
    """
    if saves_first:
        wait_for_saves(monkeypatch)
    around_steps(monkeypatch, after=lambda _, update: actions.get(update, lambda: None)())


def wait_for_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let training wait for each save."""
    save = Saver.save

    def save_and_wait(self: Saver, *arguments: Any, **options: Any) -> None:
        save(self, *arguments, **options)
        self.wait()

    monkeypatch.setattr(Saver, "save", save_and_wait)


def save_states_every(monkeypatch: pytest.MonkeyPatch, updates: int) -> None:
    """Let `save_minutes` be over whenever so many updates are done."""
    monkeypatch.setattr(Saver, "is_due", lambda _, update: update % updates == 0)


def signal_after(monkeypatch: pytest.MonkeyPatch, update: int, number: int) -> None:
    """Send this process a signal right after an update's optimiser step."""
    at_updates(monkeypatch, {update: lambda: os.kill(os.getpid(), number)})


def spoil_gradients(monkeypatch: pytest.MonkeyPatch, updates: Iterable[int]) -> None:
    """Let the gradients of some updates be no numbers, the first time that they are done."""
    left = set(updates)

    def spoil(optimizer: Optimizer, update: int) -> None:
        if update in left:
            left.remove(update)
            optimizer.weights.gradient[0] = math.nan

    around_steps(monkeypatch, before=spoil)


def fail_at(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, *, tokens: int, times: int = 1
) -> None:
    """Let the forward pass fail for micro-batches above so many tokens, or so many times."""
    left = [times]

    def fail(model: TranslationModel, batch: Batch, *more: Any, **options: Any) -> Any:
        result = losses_of(model, batch, *more, **options)
        if batch.num_tokens > tokens and left[0] > 0:
            left[0] -= 1
            result[0].backward()  # type: ignore[no-untyped-call]  # a part of the gradient is there
            raise error
        return result

    monkeypatch.setattr(update_module, "losses_of", fail)


def pretend_to_compile(monkeypatch: pytest.MonkeyPatch, problem: str = "") -> None:
    """Let torch.compile seem to work here, or have a problem. The loss is not compiled."""
    monkeypatch.setattr(autotune, "problem_of_compiling", lambda _: problem)
    monkeypatch.setattr(loss, "_compiled", lambda: loss._of_chunk)


def stop_after_pools(monkeypatch: pytest.MonkeyPatch, pools: int) -> None:
    """Let a job be stopped right after so many pools of lines are in its journal."""
    add, left = Journal.add, [pools]

    def add_or_stop(*arguments: Any) -> None:
        add(*arguments)
        left[0] -= 1
        if left[0] == 0:
            raise Stopped("stopped")

    monkeypatch.setattr(Journal, "add", add_or_stop)


def short_of_memory(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    """Let the search fail for batches that hold a source of more tokens."""

    def search_or_fail(model: Any, groups: Any, *arguments: Any, **options: Any) -> Any:
        for group in groups:
            if max(len(source.ids) for source in group.sources) > tokens:
                raise MemoryError
            yield from decode(model, iter([group]), *arguments, **options)

    monkeypatch.setattr("nmt.search.torch_engine.decode", search_or_fail)


def free_bytes(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Let whoever asks be told of so much room."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))


def full_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the disk be full whenever a file of that name is to be written."""
    replace = os.replace

    def replace_or_fail(source: Path, target: Path) -> None:
        if Path(target).name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_or_fail)


def fill_up(ballast: Path) -> None:
    """Really fill a small disk."""
    try:
        with ballast.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)) == 1 << 16:
                pass
    except OSError as error:
        assert error.errno == errno.ENOSPC
