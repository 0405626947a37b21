"""Checkpoints: model files for averaging, and training states to resume from.

    checkpoints/update-00003000.safetensors   a model file every save_every updates; newest kept
    checkpoints/best-00002000.safetensors     a model file, one of the best by validation
    checkpoints/update-00003000.state         the training state; newest two kept

A run resumes from a state. It writes one before the first update, one every save_minutes, and one
when it ends. A run that was killed makes later checkpoints again, bit for bit the same on CPUs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from torch import Tensor

from nmt.data.manifest import build_value
from nmt.data.updates import Position
from nmt.errors import DataError
from nmt.models.model_file import ModelCard, ModelReader
from nmt.models.tensor_file import TensorFile, write_tensors
from nmt.runs.run_folder import RunFolder
from nmt.system.distributed import Ranks
from nmt.system.files import link_or_copy, remove_left_overs

STATE_KIND = "a training state"
STATE_VERSION = 6
STATES_KEPT = 2

# The files of a run's checkpoints folder; the star is the update.
CHECKPOINT, BEST, STATE = "update-*.safetensors", "best-*.safetensors", "update-*.state"


def path_of(run: RunFolder, name: str, update: int) -> Path:
    """Return the path of an update's CHECKPOINT, BEST or STATE."""
    return run.checkpoints / name.replace("*", f"{update:08d}")


def updates_of(run: RunFolder, name: str) -> list[int]:
    """Return the updates that have such a file, oldest first."""
    start, end = name.split("*")
    paths = run.checkpoints.glob(name)
    updates = (path.name.removeprefix(start).removesuffix(end) for path in paths)
    return sorted(int(update) for update in updates if update.isdecimal())


def keep_only(run: RunFolder, name: str, updates: Container[int]) -> None:
    """Remove such files of all other updates."""
    for update in updates_of(run, name):
        if update not in updates:
            path_of(run, name, update).unlink()


Best = tuple[tuple[float, float, int], ...]
"""Metric, loss and update of the best models, best first; lower is better."""


@dataclass(frozen=True)
class RunState:
    """The state of a run; with the optimiser's vectors, everything that resuming needs.

    It is saved and loaded as a whole. What happens in a run makes a new one from the one before.
    """

    update: int = 0  # number of updates done
    position: Position = field(default_factory=Position)  # of the next update
    validated: int = 0  # the last update that was validated
    bad_validations: int = 0  # validations in a row without a better result
    best: Best = ()
    history: tuple[tuple[int, float], ...] = ()  # updates that were validated, and their metric
    seconds: float = 0.0  # spent training
    micro_batch_tokens: int = 0  # in use; 0: not chosen yet
    micro_batch_for: str = ""  # the recipe's value, device and ranks that it was chosen for

    @property
    def best_updates(self) -> list[int]:
        return [update for *_, update in self.best]

    def validated_as(
        self, metric: float, loss: float, *, keep_best: int, is_extra: bool = False
    ) -> RunState:
        """Return the state after a validation of its update.

        metric: a lower one is better.
        loss: decides which of two models with the same metric is better, such as of two with BLEU
            0. To patience, the same metric is no improvement.
        keep_best: how many of the best are kept.
        is_extra: it came only because the run ended. It may be the best, but patience does not
            count it, because the run may go on.
        """
        improved = not self.best or metric < self.best[0][0]
        return replace(
            self,
            validated=self.update,
            bad_validations=0 if improved else self.bad_validations + (not is_extra),
            best=tuple(sorted([*self.best, (metric, loss, self.update)])[:keep_best]),
            history=self.history + ((self.update, metric),) * (not is_extra),
        )


def write_state(run: RunFolder, state: RunState, vectors: Mapping[str, Tensor]) -> None:
    """Write everything that resuming needs, and the vectors of weights and optimiser by name."""
    path, header = path_of(run, STATE, state.update), {"progress": asdict(state)}
    write_tensors(path, vectors, header, kind=STATE_KIND, version=STATE_VERSION)


def card_of_file(path: Path) -> ModelCard | None:
    """Return the card of a whole model file; None if the file is missing or damaged."""
    try:
        return ModelReader(path).card
    except DataError:
        return None


def restore(run: RunFolder, vectors: Mapping[str, Tensor], ranks: Ranks) -> RunState | None:
    """Load the newest whole training state on all ranks; None, and nothing changed, without one.

    Rank 0 reads the state and sends it to the others. Files of later updates are removed, because
    training makes them again.

    run: the folder with the states.
    vectors: those of `write_state`, overwritten.
    ranks: all of them take part.
    DataError if all states are damaged, or if there are models but no states.
    """
    newest: _Stored | None = None
    with ranks.raise_on_all_ranks():
        if ranks.is_first:
            for folder in (run.path, run.checkpoints):  # which we have locked
                remove_left_overs(folder)
            newest = _read_newest(run, vectors)
    own_state, stored = newest or (None, {})
    state: RunState | None = ranks.gather(own_state)[0]
    if state is None:
        return None
    for name, vector in vectors.items():
        if name in stored:
            vector.copy_(stored[name])
        ranks.broadcast_(vector)
    return state


_Stored = tuple[RunState, dict[str, Tensor]]


def _read_newest(run: RunFolder, vectors: Mapping[str, Tensor]) -> _Stored | None:
    problems = []
    for update in reversed(updates_of(run, STATE)):
        try:
            path = path_of(run, STATE, update)
            state, stored = _read_state(path, vectors)
        except DataError as error:
            problems.append(str(error))
            continue
        for problem in problems:
            run.warn(f"{problem}; resuming from {path.name} instead")
        # A newer state that is damaged now may have caused pruning.
        best = tuple(model for model in state.best if path_of(run, BEST, model[-1]).is_file())
        state = replace(state, best=best)
        _remove_beyond(run, state)
        return state, stored
    if not problems and any(
        model for folder in (run.path, run.checkpoints) for model in folder.glob("*.safetensors")
    ):
        problems = ["it has models, but no training state"]
    if problems:
        raise DataError(
            f"{run.path} cannot be resumed: {'; '.join(problems)}; choose another --out, with "
            f"--init-from {run.path} to start from its weights"
        )
    return None


def _read_state(path: Path, vectors: Mapping[str, Tensor]) -> _Stored:
    """Read a training state; DataError if it is missing, damaged or of another model."""
    file = TensorFile(path, kind=STATE_KIND, version=STATE_VERSION)
    file.verify()
    try:
        state: RunState = build_value(RunState, file.header.get("progress"), "progress")
    except ValueError as error:
        raise DataError(
            f"{path}: damaged: its header is not a training state's ({error})"
        ) from None
    stored = {name: file.read(name) for name in file.names}
    expected = {name: vector.shape for name, vector in vectors.items()}
    if {name: vector.shape for name, vector in stored.items()} != expected:
        raise DataError(f"{path}: damaged: its vectors do not fit the model")
    return state, stored


def _remove_beyond(run: RunFolder, state: RunState) -> None:
    for name in (CHECKPOINT, STATE):
        keep_only(run, name, range(state.update + 1))
    best = state.best_updates
    keep_only(run, BEST, best)
    published = run.path / "best.safetensors"
    if best:
        link_or_copy(path_of(run, BEST, best[0]), published)
    else:
        published.unlink(missing_ok=True)
