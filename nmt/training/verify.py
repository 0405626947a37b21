"""`nmt train --verify-resume`: would this run resume bit for bit?

It repeats updates of the run from a saved training state and compares them with the records: the
checksum of the weights, the gradient norm and the loss in each line of metrics.jsonl. If it starts
from the older state, it also compares every vector with the newest state.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from nmt import console
from nmt.config import Recipe
from nmt.data.folder import DataFolder
from nmt.distributed import Ranks
from nmt.errors import DataError, NMTError
from nmt.runs.checkpoint import open_state, state_path, states_of
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training.stop import StopRequest
from nmt.training.trainer import Trainer

_OF_ONE_UPDATE = ("checksum", "grad_norm", "learning_rate")
_OF_A_WINDOW = ("loss", "nll")  # means over the updates since the line before


@dataclass(frozen=True)
class _Plan:
    """The updates to replay."""

    start: int  # the update whose state to start from
    records: list[dict[str, Any]]  # lines of metrics.jsonl to compare with, in order
    end_state: int | None  # the update whose state to compare with


def verify(
    recipe: Recipe,
    data: DataFolder,
    run: RunFolder,
    initial: InitialModel,
    ranks: Ranks,
    device: torch.device,
) -> None:
    """Replay updates of a run and compare them; write nothing.

    Raises:
        NMTError: naming the first update that differs and a possible reason, or if there is
            nothing to compare.
    """
    found: dict[str, Any] = {}
    with ranks.together():
        if ranks.is_first:
            found = asdict(_plan(run))
    plan = _Plan(**ranks.gather(found)[0])
    trainer = Trainer(recipe, data, run, initial, ranks, device, StopRequest())
    trainer.restore(plan.start)
    changes = ranks.gather(_changes(run, trainer.surroundings()) if ranks.is_first else "")[0]
    for record in plan.records:
        update = int(record["update"])
        if plan.end_state is not None and update > plan.end_state:
            _compare_state(trainer, plan.end_state, changes)
        differences = _differences(record, trainer.replay(update))
        if differences:
            raise _differs(run, update, differences, changes)
        console.notice(f"update {update:,}: equal bit for bit")
    if plan.end_state is not None and trainer.progress.update <= plan.end_state:
        _compare_state(trainer, plan.end_state, changes)
    console.notice(
        f"{run.path}: replayed from update {plan.start:,} to {trainer.progress.update:,}, equal "
        "bit for bit"
    )


def _plan(run: RunFolder) -> _Plan:
    """Plan to start from the newest state that has something later to compare with."""
    states = []
    for update in states_of(run):
        try:
            open_state(state_path(run, update))
        except DataError as error:
            console.warning(f"{error}; skipped")
        else:
            states.append(update)
    records = [one for one in run.metrics() if "checksum" in one]
    for start in reversed(states):
        later = [record for record in records if record["update"] > start]
        end_state = states[-1] if start < states[-1] else None
        if later or end_state:
            return _Plan(start, later, end_state)
    raise NMTError(
        f"{run.path}: nothing to verify yet: there is no state or line of metrics.jsonl after the "
        "first training state; train on"
    )


def _compare_state(trainer: Trainer, update: int, changes: str) -> None:
    """Replay up to an update and compare every vector with that of its state."""
    if trainer.progress.update < update:
        trainer.replay(update)
    with trainer.ranks.together():
        if trainer.ranks.is_first:
            state = open_state(state_path(trainer.run, update))
            differing = [
                name
                for name, vector in trainer.optimizer.vectors().items()
                if not torch.equal(vector.cpu(), state.read(name))
            ]
            if differing:
                found = f"the training state's {', '.join(differing)}"
                raise _differs(trainer.run, update, [found], changes)
    console.notice(f"update {update:,}: the training state is equal bit for bit")


def _differences(record: dict[str, Any], found: dict[str, Any]) -> list[str]:
    # If the run was stopped since the line before, its means are over fewer updates.
    same_window = record["updates"] == found["updates"]
    names = _OF_ONE_UPDATE + _OF_A_WINDOW if same_window else _OF_ONE_UPDATE
    return [
        f"{name} was {record[name]} and is {found[name]}"
        for name in names
        if record[name] != found[name]
    ]


def _differs(run: RunFolder, update: int, differences: list[str], changes: str) -> NMTError:
    reason = changes or (
        "the reason may be another kind of processor, other GPU kernels, another max_updates or a "
        "hardware fault"
    )
    return NMTError(
        f"{run.path} does not resume bit for bit: update {update:,} is the first that differs: "
        f"{'; '.join(differences)} ({reason})"
    )


def _changes(run: RunFolder, now: dict[str, object]) -> str:
    """Describe changes since the run was last trained."""
    before = run.last_start()
    return "; ".join(
        f"{name} was {before[name]} and is {value}"
        for name, value in now.items()
        if before.get(name, value) != value
    )
