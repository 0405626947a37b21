"""The command line of a run: recorded in its folder, and made again for a run elsewhere."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.config.presets import FINE_TUNING
from nmt.config.recipes import STAGES, Recipe, read_toml
from nmt.data.folder import DataFolder
from nmt.errors import NMTError, UsageError
from nmt.models.model_file import find_model, read_card
from nmt.runs.run_folder import RunFolder


@dataclass(frozen=True)
class TrainCommand:
    """What a user gave to `nmt train`."""

    data: Path
    out: Path
    init_from: Path | None = None
    model: str | None = None
    config: Path | None = None
    settings: tuple[str, ...] = ()
    """The words of all other options."""
    reason: str = ""
    """Why it trains in one process, if it does."""
    of_config: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """The values of `config`, without those that `settings` override."""

    def __str__(self) -> str:
        """Return the command for a shell."""
        return shlex.join(("nmt", *self.words))

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of `nmt`."""
        words = ["train", str(self.data), "--out", str(self.out)]
        named = {"--init-from": self.init_from, "--model": self.model, "--config": self.config}
        for option, given in named.items():
            words += [] if given is None else [option, str(given)]
        return (*words, *self.settings)

    def check(
        self, refused: Mapping[str, str], run: RunFolder, recipe: Recipe, data: DataFolder
    ) -> None:
        """Raise UsageError if something changed that must not, with the command that does it.

        refused: as from `RunFolder.changes`.
        """
        if refused:
            fits = _fit(run, recipe, data)
            raise UsageError(
                f"{run.path} has a run with other values: {'; '.join(refused.values())}; give the "
                f"old values to resume it, or {self._elsewhere(run, refused, recipe.preset, fits)}"
            )

    def _elsewhere(self, run: RunFolder, refused: Container[str], preset: str, fits: bool) -> str:
        """Return how to train with such values in a new folder."""
        command = dataclasses.replace(self, out=_free(self.out))
        if "init_from" in refused:  # to tune another model
            return f"start a new run: {command}"
        if fits:
            command = dataclasses.replace(command, init_from=self.out)
        elif preset == FINE_TUNING:
            return "choose another --out"
        if "preset" in refused or STAGES in refused:
            model = None if preset == FINE_TUNING else preset
            command = dataclasses.replace(command, model=model)
        else:
            was = read_toml(run.config)
            of_config = [
                word
                for key, value in self.of_config.items()
                if key != STAGES and was.get(key) != value
                for word in ("--set", f"{key}={value}")
            ]
            command = dataclasses.replace(
                command, config=run.config, settings=(*of_config, *self.settings)
            )
        return f"start a new run{' from its weights' * fits}: {command}"


def _free(out: Path) -> Path:
    """Return a path beside a run that is not in use."""
    out = out if out.name.strip(".") else out.resolve()
    paths = (out.with_name(f"{out.name}-{number}") for number in itertools.count(2))
    return next(path for path in paths if not path.exists())


def _fit(run: RunFolder, recipe: Recipe, data: DataFolder) -> bool:
    """Whether the run's model has weights for this recipe, and subwords for this data."""
    try:
        card = read_card(find_model(run.path))
    except NMTError:  # it has none yet
        return False
    mine, others = ((each.src_vocabulary.model, each.tgt_vocabulary.model) for each in (card, data))
    same_width = card.config.d_model == recipe.model.d_model  # which all matrices have
    return mine == others and same_width and card.architecture == recipe.architecture
