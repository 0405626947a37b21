"""Checkpoints: model files that averaging uses, and the training state that a run goes on from.

    checkpoints/update-00003000.safetensors   a model file, every save_every updates; newest kept
    checkpoints/best-00002000.safetensors     a model file, one of the best by validation
    checkpoints/update-00003000.state         the training state, newest two kept

A state alone is enough to go on. It is written at every checkpoint, and in between for safety.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.data.stream import Position
from nmt.distributed import Ranks
from nmt.errors import DataError
from nmt.files import TEMPORARY_SUFFIX, link_or_copy
from nmt.models.model_file import ModelReader
from nmt.models.tensor_file import TensorFile, write_tensors
from nmt.runs.run_folder import RunFolder

STATE_KIND = "a training state"
STATE_VERSION = 5
STATES_KEPT = 2
_NAME = re.compile(r"(update|best)-(\d+)\.(safetensors|state)")


@dataclass
class Progress:
    """Where a run stands; with the optimiser's vectors, all that a resume needs."""

    update: int = 0  # updates done
    position: Position = field(default_factory=Position)  # of the next update
    validated: int = 0  # the update that was validated last
    bad_validations: int = 0  # in a row, without a better result
    best: list[tuple[float, int]] = field(default_factory=list)  # (figure, update), best first
    seconds: float = 0.0  # spent training
    micro_batch_tokens: int = 0  # in use; 0: not settled yet
    micro_batch_for: str = ""  # what it was settled for: the recipe's value, device and ranks
    learning_rate_factor: float = 1.0  # below 1: the run has diverged, and gone back

    def become(self, other: Progress) -> None:
        """Take over all of another's values; whoever holds this one sees them."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))

    def as_json(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        return asdict(self)


def update_path(run: RunFolder, update: int) -> Path:
    """Return the name of an update's checkpoint."""
    return run.checkpoints / f"update-{update:08d}.safetensors"


def best_path(run: RunFolder, update: int) -> Path:
    """Return the name of an update's model file among the best."""
    return run.checkpoints / f"best-{update:08d}.safetensors"


def state_path(run: RunFolder, update: int) -> Path:
    """Return the name of an update's training state."""
    return run.checkpoints / f"update-{update:08d}.state"


def write_state(run: RunFolder, progress: Progress, vectors: Mapping[str, Tensor]) -> None:
    """Write all that a resume needs.

    vectors: the weights and what the optimiser knows of them, by name.
    """
    header = {"progress": progress.as_json()}
    path = state_path(run, progress.update)
    write_tensors(path, vectors, header, kind=STATE_KIND, version=STATE_VERSION)


def has_state(run: RunFolder) -> bool:
    """Tell whether there is a training state to go on from, whole or damaged."""
    return any(run.checkpoints.glob("update-*.state"))


def open_state(path: Path) -> TensorFile:
    """Open a training state.

    Raises:
        DataError: if it is missing or not whole.
    """
    file = TensorFile(path, kind=STATE_KIND, version=STATE_VERSION)
    file.verify()
    return file


def update_behind(path: Path) -> int | None:
    """Return the update behind a model file's weights, or None where there is no whole file."""
    try:
        return ModelReader(path).card.update
    except DataError:
        return None


def restore(
    run: RunFolder,
    vectors: Mapping[str, Tensor],
    ranks: Ranks,
    *,
    update: int | None = None,
    newest: int | None = None,
) -> Progress:
    """Bring all ranks to where the run's newest whole training state is; a fresh run stays fresh.

    Rank 0 reads, the others hear it from there.

    Args:
        run: whose states they are.
        vectors: those of `write_state`, overwritten.
        ranks: all of them take part.
        update: whose state to restore, for looking on only: nothing in the folder is touched.
        newest: the update whose state counts as the newest; later ones are removed. Where that
            is 0 and has no state, the vectors stay as they are.

    Raises:
        DataError: if there are states, but none that is whole, or not that one.
    """
    progress = Progress()
    with ranks.together():
        if ranks.is_first and update is not None:
            progress = _read_state(state_path(run, update), vectors)
        elif ranks.is_first:
            _remove_half_written(run)
            progress = _restore_newest(run, vectors, newest)
    for vector in vectors.values():
        ranks.broadcast_(vector)
    return _parse_progress(ranks.gather(progress.as_json())[0])


def newest_sound(run: RunFolder, *, before: int) -> int | None:
    """Return the update of the newest whole state that no bad update came right before.

    before: of an earlier update than this.
    """
    for update in reversed(states_of(run)):
        if update >= before:
            continue
        try:
            if not open_state(state_path(run, update)).read("guard")[2]:
                return update
        except DataError as error:
            run.warn(f"{error}; passed over for an earlier one")
    return None


def _restore_newest(run: RunFolder, vectors: Mapping[str, Tensor], newest: int | None) -> Progress:
    """Load the newest whole state; a damaged one is reported and the one before it used.

    What lies beyond the state that is used will be made again and is removed.
    """
    problems = []
    for update in reversed(states_of(run)):
        if newest is not None and update > newest:
            continue
        try:
            progress = _read_state(state_path(run, update), vectors)
        except DataError as error:
            problems.append(str(error))
            continue
        for problem in problems:
            run.warn(f"{problem}; going on from {state_path(run, update).name} instead")
        # Pruning may have gone by a newer state that is damaged now.
        progress.best = [one for one in progress.best if best_path(run, one[1]).is_file()]
        _remove_beyond(run, progress)
        return progress
    if problems:
        raise DataError(
            f"{run.path}: no training state is whole ({'; '.join(problems)}); choose another --out"
        )
    if newest is not None:
        _remove_beyond(run, Progress())
    return Progress()


def _read_state(path: Path, vectors: Mapping[str, Tensor]) -> Progress:
    file = open_state(path)
    try:
        progress = _parse_progress(file.header["progress"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: damaged: its header is not a training state's ({error})"
        ) from None
    stored = {name: file.read(name) for name in file.names}
    expected = {name: vector.shape for name, vector in vectors.items()}
    if {name: vector.shape for name, vector in stored.items()} != expected:
        raise DataError(f"{path}: damaged: its vectors do not fit the model")
    for name, vector in vectors.items():
        vector.copy_(stored[name])
    return progress


def _parse_progress(values: dict[str, Any]) -> Progress:
    best = [(float(figure), int(update)) for figure, update in values["best"]]
    return Progress(**values | {"best": best, "position": Position(**values["position"])})


def _remove_beyond(run: RunFolder, progress: Progress) -> None:
    best = [update for _, update in progress.best]
    for path, role, update, _ in _files_of(run):
        if update > progress.update or (role == "best" and update not in best):
            path.unlink()
    published = run.path / "best.safetensors"
    if not best:
        published.unlink(missing_ok=True)
    elif (path := best_path(run, best[0])).is_file():
        link_or_copy(path, published)


def _remove_half_written(run: RunFolder) -> None:
    """Remove what a process that was killed left; whoever calls this holds the folder's lock."""
    for folder in (run.path, run.checkpoints):
        for path in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            path.unlink()


def prune(run: RunFolder, progress: Progress, *, keep_last: int) -> None:
    """Remove what need not be kept."""
    newest = sorted(_updates_of(run, "update", "safetensors"))[-keep_last:]
    states = states_of(run)[-STATES_KEPT:]
    for path, role, update, suffix in _files_of(run):
        if role == "update" and update not in (states if suffix == "state" else newest):
            path.unlink()
    prune_best(run, {update for _, update in progress.best})


def prune_best(run: RunFolder, kept: Collection[int]) -> None:
    """Remove the best model files of all updates but some."""
    for path, role, update, _ in _files_of(run):
        if role == "best" and update not in kept:
            path.unlink()


def states_of(run: RunFolder) -> list[int]:
    """Return the updates that there are training states of, oldest first."""
    return sorted(_updates_of(run, "update", "state"))


def checkpoints_of(run: RunFolder, role: str) -> list[Path]:
    """Return a run's model files, `update` or `best`, oldest first."""
    name = update_path if role == "update" else best_path
    return [name(run, update) for update in sorted(_updates_of(run, role, "safetensors"))]


def _updates_of(run: RunFolder, role: str, suffix: str) -> list[int]:
    return [
        u for _, found_role, u, found in _files_of(run) if (found_role, found) == (role, suffix)
    ]


def _files_of(run: RunFolder) -> list[tuple[Path, str, int, str]]:
    found = []
    for path in run.checkpoints.iterdir():
        if match := _NAME.fullmatch(path.name):
            found.append((path, match[1], int(match[2]), match[3]))
    return found
