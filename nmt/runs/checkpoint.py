"""Checkpoints: model files for averaging, and training states to resume from.

    checkpoints/update-00003000.safetensors   a model file every save_every updates; newest kept
    checkpoints/best-00002000.safetensors     a model file, one of the best by validation
    checkpoints/update-00003000.state         the training state; newest two kept

A run resumes from a state, which is written with every checkpoint and between them for safety.
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
    """The progress of a run; with the optimiser's vectors, everything that resuming needs."""

    update: int = 0  # number of updates done
    position: Position = field(default_factory=Position)  # of the next update
    validated: int = 0  # the last update that was validated
    bad_validations: int = 0  # validations in a row without a better result
    best: list[tuple[float, int]] = field(default_factory=list)  # (metric, update), best first
    seconds: float = 0.0  # spent training
    micro_batch_tokens: int = 0  # in use; 0: not chosen yet
    micro_batch_for: str = ""  # the recipe's value, device and ranks that it was chosen for
    learning_rate_factor: float = 1.0  # below 1 after the run has diverged and gone back

    def become(self, other: Progress) -> None:
        """Copy all values from another, so that everybody who holds this object sees them."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))

    def as_json(self) -> dict[str, Any]:
        """Return the values in JSON's types."""
        return asdict(self)


def update_path(run: RunFolder, update: int) -> Path:
    """Return the path of an update's checkpoint."""
    return run.checkpoints / f"update-{update:08d}.safetensors"


def best_path(run: RunFolder, update: int) -> Path:
    """Return the path of an update's model file among the best."""
    return run.checkpoints / f"best-{update:08d}.safetensors"


def state_path(run: RunFolder, update: int) -> Path:
    """Return the path of an update's training state."""
    return run.checkpoints / f"update-{update:08d}.state"


def write_state(run: RunFolder, progress: Progress, vectors: Mapping[str, Tensor]) -> None:
    """Write everything that resuming needs.

    vectors: the weights and the optimiser's state, by name.
    """
    header = {"progress": progress.as_json()}
    path = state_path(run, progress.update)
    write_tensors(path, vectors, header, kind=STATE_KIND, version=STATE_VERSION)


def has_state(run: RunFolder) -> bool:
    """Return whether there is a training state, whole or damaged."""
    return any(run.checkpoints.glob("update-*.state"))


def open_state(path: Path) -> TensorFile:
    """Open a training state.

    Raises:
        DataError: if it is missing or damaged.
    """
    file = TensorFile(path, kind=STATE_KIND, version=STATE_VERSION)
    file.verify()
    return file


def update_behind(path: Path) -> int | None:
    """Return the update of a model file's weights; None if the file is missing or damaged."""
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
    """Load the run's newest whole training state on all ranks; without states change nothing.

    Rank 0 reads the state and broadcasts it.

    Args:
        run: the folder with the states.
        vectors: those of `write_state`, overwritten.
        ranks: all of them take part.
        update: restore this update's state, without changing anything in the folder.
        newest: treat this update's state as the newest and remove later ones. If there is no
            state up to it, the vectors stay as they are.

    Raises:
        DataError: if all states are damaged, or the one of `update` is missing.
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
    """Return the update of the newest whole state that does not follow a bad update.

    before: only states of earlier updates count.
    """
    for update in reversed(states_of(run)):
        if update >= before:
            continue
        try:
            if not open_state(state_path(run, update)).read("guard")[2]:
                return update
        except DataError as error:
            run.warn(f"{error}; trying an earlier one")
    return None


def _restore_newest(run: RunFolder, vectors: Mapping[str, Tensor], newest: int | None) -> Progress:
    """Load the newest whole state; report damaged ones and use the one before.

    Files of later updates are removed, because training makes them again.
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
            run.warn(f"{problem}; resuming from {state_path(run, update).name} instead")
        # A newer state that is damaged now may have caused pruning.
        progress.best = [one for one in progress.best if best_path(run, one[1]).is_file()]
        _remove_beyond(run, progress)
        return progress
    if problems:
        raise DataError(
            f"{run.path}: all training states are damaged ({'; '.join(problems)}); choose another "
            "--out"
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
    best = [(float(metric), int(update)) for metric, update in values["best"]]
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
    """Remove temporary files of a killed process; the caller holds the folder's lock."""
    for folder in (run.path, run.checkpoints):
        for path in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            path.unlink()


def prune(run: RunFolder, progress: Progress, *, keep_last: int) -> None:
    """Remove checkpoints and states that need not be kept."""
    newest = sorted(_updates_of(run, "update", "safetensors"))[-keep_last:]
    states = states_of(run)[-STATES_KEPT:]
    for path, role, update, suffix in _files_of(run):
        if role == "update" and update not in (states if suffix == "state" else newest):
            path.unlink()
    prune_best(run, {update for _, update in progress.best})


def prune_best(run: RunFolder, kept: Collection[int]) -> None:
    """Remove the best model files, except those of the updates in `kept`."""
    for path, role, update, _ in _files_of(run):
        if role == "best" and update not in kept:
            path.unlink()


def states_of(run: RunFolder) -> list[int]:
    """Return the updates that have a training state, oldest first."""
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
