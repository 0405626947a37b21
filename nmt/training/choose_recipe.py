"""The recipe of a run, from what the user gave: a preset, sizes that suit the data, and layers.

It is chosen once, and the processes that `nmt train` starts are copies of the one that has done so.
torchrun starts processes that no process of ours has started. Each chooses for itself then, so that
all fail together, and the first one's choice counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt import console
from nmt.config import presets
from nmt.config.recipes import Layer, Recipe, read_toml, recorded_run, resolve_recipe
from nmt.config.training_config import TrainingConfig
from nmt.data.folder import DataFolder
from nmt.data.manifest import read_info
from nmt.data.pieces import PieceModel
from nmt.errors import UsageError
from nmt.models.device import torch_gpus
from nmt.models.model_file import ModelCard, find_model, read_card
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


def choose_recipe(
    command: TrainCommand,
    overrides: Mapping[str, object],
    given: Mapping[str, object],
    *,
    processes: int,
) -> Recipe:
    """Return the recipe of a run: its own if it goes on, else a preset's, with what the user gave.

    command: the folders and files.
    overrides: the values of --set.
    given: the values of other options.
    processes: their number; 0 if it is not known yet.
    UsageError if a value is wrong, or data and tuned model do not fit. DataError if the data is
    not a data folder.
    """
    run, config, model = RunFolder(command.out), command.config, command.model
    values_of_file = read_toml(config) if config else {}
    # `threads` are those of each process. Of another number, each takes its share of the cores.
    if config and recorded_run(config).get("ranks", processes) != processes:
        values_of_file.pop("threads", None)
    asked_for = {**values_of_file, **overrides, **given}
    layers: list[Layer]
    if run.exists and model in (None, (own := run.own_values())[0]):
        preset, architecture, values = own
        layers = [(str(run.config), values)]
    else:
        device = str(asked_for.get("device", "auto"))
        preset = model or _choose_preset(command, device)
        architecture, layers = _preset_layers(preset, command.data, command.init_from)
        if model is None and preset != presets.FINE_TUNING:
            layers.append((preset, _values_for_size(preset, command.data, asked_for.keys())))
    layers += [(str(config), values_of_file)] if config else []
    layers += [("--set", overrides), ("command line", given)]
    return resolve_recipe(preset, architecture, layers)


def _choose_preset(command: TrainCommand, device: str) -> str:
    """Return the preset of the run that is repeated, or else one that fits, and say so.

    DataError if the data is not a data folder.
    """
    if command.config and (noted := recorded_run(command.config).get("preset")):
        return str(noted)
    if command.init_from is not None:
        return presets.FINE_TUNING
    pairs = read_info(command.data).train.pairs
    gpu = device == "cuda"
    if device == "auto" and pairs >= presets.FEW_PAIRS:
        gpu = torch_gpus() > 0
    name, reason = presets.preset_for(pairs, gpu=gpu)
    console.notice(f"no --model given: taking {name}, because {reason}")
    return name


def _values_for_size(preset: str, data: Path, asked_for: Collection[str]) -> dict[str, object]:
    """Return what a preset that we chose changes for small data, and say so.

    asked_for: keys whose values the user gave; nothing changes if they decide on the length.
    """
    if not {"max_updates", "batch_tokens"}.isdisjoint(asked_for):
        return {}
    train = read_info(data).train
    defaults = asdict(TrainingConfig()) | presets.preset_values(preset)
    lengths = (defaults[key] for key in ("batch_tokens", "max_updates", "warmup_updates"))
    tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
    values = presets.values_for_size(tokens, *lengths)
    if values:
        console.notice(
            f"no --max-updates given: taking {values['max_updates']:,}, which see the "
            f"{console.counted(train.pairs, 'pair', 'pairs')} {presets.MOST_EPOCHS} times at most"
        )
    return {key: value for key, value in values.items() if key not in asked_for}


def _preset_layers(preset: str, data: Path, init_from: Path | None) -> tuple[str, list[Layer]]:
    """Return the architecture and the lowest layers of values, of a preset or of a tuned model.

    UsageError if the data has another vocabulary than the model that is tuned.
    """
    if preset != presets.FINE_TUNING:
        return presets.find_preset(preset).architecture, [(preset, presets.preset_values(preset))]
    if init_from is None:
        raise UsageError("this run tunes a model; give the same --init-from as at its start")
    card, folder = read_card(find_model(init_from)), DataFolder.open(data)
    for own, new in (
        (card.src_vocabulary, folder.src_vocabulary),
        (card.tgt_vocabulary, folder.tgt_vocabulary),
    ):
        models = [PieceModel.read(vocabulary.model) for vocabulary in (own, new)]
        if own.moses != new.moses or not models[1].extends(models[0]):
            raise UsageError(
                f"{data} has another vocabulary than {init_from}: prepare it with --vocab "
                f"{init_from}{moses_options(card)}, or give --model"
            )
    sizes = asdict(card.config)
    return card.architecture, [(str(init_from), sizes), (preset, presets.FINE_TUNING_VALUES)]


def moses_options(card: ModelCard) -> str:
    """Return the options of `prepare` for the model's preprocessing."""
    rules = card.src_vocabulary.moses
    return "".join(f" --moses-{step}" for step in rules.steps) if rules else ""
