"""What to do when gradients are no longer finite.

One such update is passed over: Adam leaves everything as it is. Several in a row mean that the run
has diverged, or that some pairs cannot be learnt from; so does a validation without a finite loss.
The pairs of those updates are written out as text, to be looked at, and the trainer goes back to
the newest sound training state, or to the beginning, and leaves them out. If that does not help,
the run fails.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nmt.data.folder import DataFolder
from nmt.data.permutation import Indices
from nmt.data.stream import Position, Update
from nmt.errors import NMTError
from nmt.files import write_text
from nmt.training.optimizer import Guard
from nmt.training.run_folder import RunFolder


@dataclass(frozen=True)
class Watched:
    """An update that was done lately."""

    number: int
    position: Position
    pairs: Indices  # of all ranks
    bad: Tensor  # 1.0 where its gradient was not finite, else 0.0


class Divergence:
    """Watches a run's gradients."""

    def __init__(self, run: RunFolder, data: DataFolder, guard: Guard) -> None:
        self._run = run
        self._data = data
        self._guard = guard
        # The guard of a GPU is read one update late.
        self._recent: deque[Watched] = deque(maxlen=guard.limit + 1)

    def watch(self, number: int, position: Position, update: Update, bad: Tensor) -> None:
        """Remember an update for a while."""
        self._recent.append(Watched(number, position, update.pairs, bad))

    def is_there(self) -> bool:
        """Tell whether too many updates in a row had no finite gradient."""
        return self._guard.bad_in_a_row() >= self._guard.limit

    def is_at_the_end(self) -> bool:
        """Tell whether a run that is over ends in updates without a finite gradient, not just one.

        No later update would show it.
        """
        if self._guard.fp16:  # where that is the search for a scale
            return False
        return len(self._recent) > 1 and all(bool(one.bad) for one in list(self._recent)[-2:])

    def suspects(self) -> list[Watched]:
        """Return the last updates that had none, or else the very last ones, oldest first."""
        return [one for one in self._recent if bool(one.bad)] or list(self._recent)

    def forget(self) -> None:
        """Begin anew, after going back."""
        self._recent.clear()
        self._guard.forgive()

    def write_text(self, updates: list[Watched], folder: Path) -> None:
        """Write the pairs of each of some updates as text in two files, line by line."""
        folder.mkdir(exist_ok=True)
        for one in updates:
            data, train = self._data, self._data.train
            for ids_of, language, vocabulary in (
                (train.src, data.src_lang, data.src_vocabulary),
                (train.tgt, data.tgt_lang, data.tgt_vocabulary),
            ):
                lines = vocabulary.decode([ids_of(pair).tolist() for pair in one.pairs.tolist()])
                path = folder / f"update-{one.number:08d}.{language}"
                write_text(path, "".join(f"{line}\n" for line in lines))

    def error(self, found: str) -> NMTError:
        """Return the failure of the run."""
        return NMTError(
            f"{self._run.path}: diverged: {found}; lower learning_rate, raise warmup_updates or "
            "set clip_norm, and start in a new folder"
        )
