"""`nmt train --verify-resume`: would this run go on bit for bit?

Updates that the run has done are done again from a training state that is kept, and compared with
what it recorded: the checksum of the weights, the gradient's norm and the loss of every line of
metrics.jsonl, and every vector of the newest state where the older one is the start.
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
    """What to replay."""

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
    """Replay updates of a run and compare; nothing is written.

    Raises:
        NMTError: naming the first update that comes out otherwise, and what may be the reason; or
            where the run has left nothing to compare.
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
    """Start from the newest state that a recorded update follows, else from the older one."""
    states = []
    for update in states_of(run):
        try:
            open_state(state_path(run, update))
        except DataError as error:
            console.warning(f"{error}; passed over")
        else:
            states.append(update)
    records = [one for one in run.metrics() if "checksum" in one]
    for start in reversed(states):
        later = [record for record in records if record["update"] > start]
        end_state = states[-1] if start < states[-1] else None
        if later or end_state:
            return _Plan(start, later, end_state)
    raise NMTError(
        f"{run.path}: nothing to verify yet: it takes a training state, and a later one or a "
        "later line of metrics.jsonl to compare with; train on"
    )


def _compare_state(trainer: Trainer, update: int, changes: str) -> None:
    """Replay up to an update and compare every vector with its state's."""
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
    # The run may have been stopped since the line before, and its means be over fewer updates.
    same_window = record["updates"] == found["updates"]
    names = _OF_ONE_UPDATE + _OF_A_WINDOW if same_window else _OF_ONE_UPDATE
    return [
        f"{name} was {record[name]} and is {found[name]}"
        for name in names
        if record[name] != found[name]
    ]


def _differs(run: RunFolder, update: int, differences: list[str], changes: str) -> NMTError:
    reason = changes or (
        "another kind of processor, other GPU kernels, another max_updates or a fault of the "
        "machine may be the reason"
    )
    return NMTError(
        f"{run.path}: does not go on bit for bit: update {update:,} is the first found to differ: "
        f"{'; '.join(differences)} ({reason})"
    )


def _changes(run: RunFolder, now: dict[str, object]) -> str:
    """Tell what is no longer as it was when the run was last trained."""
    before = run.last_start()
    return "; ".join(
        f"{name} was {before[name]} and is {value}"
        for name, value in now.items()
        if before.get(name, value) != value
    )
