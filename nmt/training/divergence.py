"""What to do when gradients are no longer finite.

One such update is passed over: Adam leaves everything as it is. Several in a row mean that the run
has diverged, or that some pairs cannot be learnt from; so does a validation without a finite loss.
The pairs of those updates are written out as text, to be looked at, and the trainer goes back to
the newest sound training state, or to the beginning, and leaves them out. If that does not help,
the run fails.
"""

from __future__ import annotations

from torch import Tensor

from nmt.config import TrainingConfig
from nmt.data.folder import DataFolder
from nmt.data.stream import Position, pairs_at
from nmt.distributed import Ranks
from nmt.errors import NMTError
from nmt.files import write_text
from nmt.runs.checkpoint import Progress, Watched, newest_sound
from nmt.runs.run_folder import RunFolder
from nmt.training.optimizer import Guard

_SUSPECTS = 6  # of the last updates before a validation without a finite loss


class Divergence:
    """Watches a run's gradients."""

    def __init__(
        self,
        run: RunFolder,
        data: DataFolder,
        config: TrainingConfig,
        guard: Guard,
        progress: Progress,
    ) -> None:
        """Begin; `progress` holds the updates that are remembered, so that a state has them."""
        self.texts = run.path / "passed_over"  # the folder of what is left out
        self._run = run
        self._data = data
        self._config = config
        self._guard = guard
        self._progress = progress

    def watch(self, number: int, position: Position, bad: Tensor) -> None:
        """Remember an update for a while."""
        recent = self._progress.recent
        recent.append(Watched(number, position, bad))
        # The guard of a GPU is read one update late.
        del recent[: -max(_SUSPECTS, self._guard.limit + 1)]

    def is_there(self) -> bool:
        """Tell whether too many updates in a row had no finite gradient."""
        return self._guard.bad_in_a_row() >= self._guard.limit

    def is_at_the_end(self) -> bool:
        """Tell whether a run that is over ends in updates without a finite gradient, not just one.

        No later update would show it.
        """
        if self._guard.fp16:  # where that is the search for a scale
            return False
        last = self._progress.recent[-2:]
        return len(last) > 1 and all(bool(one.bad) for one in last)

    def offending(self) -> list[Watched]:
        """Return the updates that had none, as far as they are remembered, oldest first."""
        return [one for one in self._progress.recent if bool(one.bad)]

    def latest(self) -> list[Watched]:
        """Return the last few updates, oldest first: weights may be spoilt by a finite gradient."""
        return self._progress.recent[-_SUSPECTS:]

    def forget(self) -> None:
        """Begin anew, after going back."""
        self._progress.recent = []
        self._guard.forgive()

    def state_to_go_back_to(self, found: str, suspects: list[Watched], ranks: Ranks) -> int | None:
        """Return the update of the newest sound state; None: the run has to begin again.

        The pairs of the suspects are written as text.

        Args:
            found: what has been seen of the divergence.
            suspects: the updates that are going to be left out.
            ranks: the processes of the run.

        Raises:
            NMTError: if the run has come no further than to where it went back last.
        """
        sound: int | None = None
        with ranks.together():
            if ranks.is_first:
                sound = newest_sound(self._run, before=self._progress.update)
                with self._run.dispensable(self.texts):
                    self._write_text(suspects)
        sound = ranks.gather(sound)[0]
        if (sound or 0) == self._progress.went_back_to:
            raise self.error(
                f"{found}, as after going back once (the pairs of these updates are in "
                f"{self.texts})"
            )
        return sound

    def _write_text(self, updates: list[Watched]) -> None:
        """Write the pairs of each of some updates as text in two files, line by line."""
        self.texts.mkdir(exist_ok=True)
        data, train, config = self._data, self._data.train, self._config
        for place in (one.position for one in updates):
            pairs = pairs_at(place, train, batch_tokens=config.batch_tokens, seed=config.seed)
            for ids_of, language, vocabulary in (
                (train.src, data.src_lang, data.src_vocabulary),
                (train.tgt, data.tgt_lang, data.tgt_vocabulary),
            ):
                lines = vocabulary.decode([ids_of(pair).tolist() for pair in pairs.tolist()])
                name = f"epoch-{place.epoch}-pool-{place.pool}-update-{place.index}.{language}"
                write_text(self.texts / name, "".join(f"{line}\n" for line in lines))

    def error(self, found: str) -> NMTError:
        """Return the failure of the run."""
        return NMTError(
            f"{self._run.path}: diverged: {found}; lower learning_rate, raise warmup_updates or "
            "set clip_norm, and start in a new folder"
        )
