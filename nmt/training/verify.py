"""`nmt train --verify-resume`: would this run resume bit for bit?

It repeats updates of the run from a saved training state and compares them with the records: the
checksum of the weights, the gradient norm and the loss in each line of metrics.jsonl. If it starts
from the older state, it also compares every vector with the newest state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmt import console
from nmt.errors import DataError, NMTError
from nmt.runs.checkpoint import STATE, open_state, updates_of
from nmt.runs.run_folder import RunFolder
from nmt.training.meter import Window
from nmt.training.settle import surroundings
from nmt.training.stop import StopRequest
from nmt.training.trainer import Setup, Trainer

_OF_ONE_UPDATE = ("checksum", "grad_norm", "learning_rate")
_OF_A_WINDOW = ("loss", "nll")  # means over the updates since the line before

Record = dict[str, Any]


def verify(setup: Setup) -> None:
    """Replay updates of a run and compare them; write nothing.

    Raises:
        NMTError: naming the first update that differs and a possible reason, or if there is
            nothing to compare.
    """
    run, ranks = setup.run, setup.ranks
    if setup.changes:
        console.notice(setup.changes)
    plan: tuple[int, list[tuple[int, Record | None]]] = 0, []
    with ranks.together():
        if ranks.is_first:
            plan = _plan(run)
    start, steps = ranks.gather(plan)[0]
    trainer = Trainer(setup, StopRequest())
    trainer.restore(start)
    now = surroundings(setup.recipe.training, setup.device, ranks, trainer.state)
    changes = ranks.gather(_changes(run, now) if ranks.is_first else "")[0]
    for update, record in steps:
        _replay(trainer, update)
        found = _differences(trainer, record) if record else _differing_vectors(trainer)
        if found:
            reason = changes or (
                "the reason may be another kind of processor, other GPU kernels, another "
                "max_updates or a hardware fault"
            )
            raise NMTError(
                f"{run.path} does not resume bit for bit: update {update:,} is the first that "
                f"differs: {'; '.join(found)} ({reason})"
            )
        what = "equal" if record else "the training state is equal"
        console.notice(f"update {update:,}: {what} bit for bit")
    console.notice(
        f"{run.path}: replayed from update {start:,} to {trainer.state.update:,}, equal bit for bit"
    )


def _plan(run: RunFolder) -> tuple[int, list[tuple[int, Record | None]]]:
    """Start from the newest state that has something later to compare with.

    Returns:
        The update of that state; later updates in order, each with its line of metrics.jsonl, or
        None for the newest training state.
    """
    states = []
    for update in updates_of(run, STATE):
        try:
            open_state(run, update)
        except DataError as error:
            console.warning(f"{error}; skipped")
        else:
            states.append(update)
    steps: list[tuple[int, Record | None]] = [
        (record["update"], record) for record in run.metrics() if "checksum" in record
    ]
    steps += [(update, None) for update in states[-1:]]
    steps.sort(key=lambda step: (step[0], step[1] is None))
    for start in reversed(states):
        if later := [step for step in steps if step[0] > start]:
            return start, later
    raise NMTError(
        f"{run.path}: nothing to verify yet: there is no state or line of metrics.jsonl after the "
        "first training state; train on"
    )


def _replay(trainer: Trainer, update: int) -> None:
    """Train up to an update, without writing anything."""
    trainer.window = Window.empty(trainer.device)
    while trainer.state.update < update:
        trainer.train_update(trainer.window.take(trainer.updates))
        if trainer.settle(wait=True).dropped:
            raise NMTError(
                "the replay stopped: out of memory, on request, or because torch.compile failed; "
                "run it again"
            )


def _differences(trainer: Trainer, record: Record) -> list[str]:
    """Compare the present update and the window with a line of metrics.jsonl."""
    found = trainer.metrics()
    # If the run was stopped since the line before, its means are over fewer updates.
    same_window = record["updates"] == found["updates"]
    names = _OF_ONE_UPDATE + _OF_A_WINDOW if same_window else _OF_ONE_UPDATE
    return [
        f"{name} was {record[name]} and is {found[name]}"
        for name in names
        if record[name] != found[name]
    ]


def _differing_vectors(trainer: Trainer) -> list[str]:
    """Compare every vector with that of the present update's state."""
    ranks, found = trainer.ranks, dict[str, Tensor]()
    for name, vector in trainer.optimizer.vectors().items():
        whole = torch.empty(vector.shape, dtype=vector.held.dtype) if ranks.is_first else None
        vector.collect(whole, ranks)
        if whole is not None:
            found[name] = whole
    names: list[str] = []
    with ranks.together():
        if ranks.is_first:
            state = open_state(trainer.run, trainer.state.update)
            names = [name for name in found if not torch.equal(found[name], state.read(name))]
    names = ranks.gather(names)[0]
    return [f"the training state's {', '.join(names)}"] if names else []


def _changes(run: RunFolder, now: dict[str, object]) -> str:
    """Describe changes since the run was last trained."""
    before = run.last_start()
    return "; ".join(
        f"{name} was {before[name]} and is {value}"
        for name, value in now.items()
        if before.get(name, value) != value
    )
