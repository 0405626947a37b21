"""`nmt train`: a data folder to a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.options import Quiet, preset_names
from nmt.errors import UsageError

EXAMPLE = (
    "nmt train data --out run --model transformer_small --set dropout=0.3\n\n"
    "nmt train news --out tuned --init-from run --model transformer_small --max-updates 2000 "
    "--set learning_rate=1e-4 --set warmup_updates=100 --set 'freeze=encoder.*'\n\n"
    "torchrun --nproc-per-node 8 -m nmt train data --out run --model transformer_big "
    "--precision bf16"
)

_SHORTHAND = "Shorthand for --set"
_FROM_PRESET = "from the preset"


def train(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A data folder that `nmt prepare` wrote.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="The run folder to make or to go on with.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="A preset of the registry (see `nmt models`).",
            autocompletion=preset_names,
            show_default="the run's, or what fits data and machine",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Values under \\[model] and \\[training] that take the place of the preset's.",
        ),
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(
            "--init-from",
            metavar="MODEL_OR_RUN",
            help="Take initial weights from a model file, or from a run folder's best, as far as "
            "names and shapes are the same; embeddings piece by piece of the vocabulary.",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="One value, over preset and file; may be repeated. `nmt models NAME` lists all.",
        ),
    ] = None,
    max_updates: Annotated[
        int | None,
        typer.Option(
            help="Updates after which training ends; linear and cosine schedules reach 0 there.",
            show_default=_FROM_PRESET,
            rich_help_panel=_SHORTHAND,
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            help="Target tokens of an update.",
            show_default=_FROM_PRESET,
            rich_help_panel=_SHORTHAND,
        ),
    ] = None,
    micro_batch_tokens: Annotated[
        str | None,
        typer.Option(
            help="Tokens that go through the model at once: a number, or auto for what fits.",
            show_default=_FROM_PRESET,
            rich_help_panel=_SHORTHAND,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="fp32, bf16 or fp16.", show_default=_FROM_PRESET, rich_help_panel=_SHORTHAND
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="auto, cpu or cuda.", show_default=_FROM_PRESET, rich_help_panel=_SHORTHAND
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of weights, order and dropout.",
            show_default=_FROM_PRESET,
            rich_help_panel=_SHORTHAND,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Write nothing, but show what the run would be: updates, memory, disk and time, "
            "by some seconds of training in memory. Under torchrun all processes measure; without "
            "it, WORLD_SIZE=8 in the environment estimates what eight would take.",
        ),
    ] = False,
    time_limit: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop by itself, as SIGTERM would, so long after the start: minutes, HH:MM or "
            "H:MM:SS. Leave the 20 seconds that saving may take.",
            show_default="none",
        ),
    ] = None,
    verify_resume: Annotated[
        bool,
        typer.Option(
            "--verify-resume",
            help="Train nothing: replay updates from a kept state and see whether they come out "
            "as the run has recorded them, bit for bit. Writes nothing.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on a data folder.

    The run folder holds checkpoints, the best and the last model, the configuration in full, a log,
    metrics.jsonl and curves.svg. Stop it with Ctrl-C, SIGTERM or --time-limit: everything is saved,
    the exit status is 75, and the same command goes on where it was, on a CPU bit for bit. A
    finished run goes on with a larger --max-updates; a schedule that ended at 0, linear or cosine,
    then rises at once to where the longer one is.

    To fine-tune a model, give it with --init-from, and its preset with --model; --set
    'freeze=encoder.*' keeps the encoder's weights as they are. Only a run that starts takes weights
    from it, one that goes on has its own.

    Under torchrun the same command uses many GPUs or machines; an update holds the same pairs on
    any number of them. torchrun's own exit status is 1 where a process's is 75: RUN/status.json
    tells.
    """
    started = time.monotonic()
    from nmt.config import parse_overrides, read_toml, resolve_recipe
    from nmt.data.manifest import read_info
    from nmt.models.presets import find_preset, preset_values
    from nmt.training.stop import parse_time_limit

    if verify_resume and time_limit is not None:
        raise UsageError("--verify-resume trains nothing and takes no --time-limit")
    deadline = started + parse_time_limit(time_limit) if time_limit is not None else math.inf
    values_of_file = read_toml(config) if config else {}
    overrides = parse_overrides(assignments or [])
    shorthand = {
        "max_updates": max_updates,
        "batch_tokens": batch_tokens,
        "micro_batch_tokens": "0" if micro_batch_tokens == "auto" else micro_batch_tokens,
        "precision": precision,
        "device": device,
        "seed": seed,
    }
    given = {key: value for key, value in shorthand.items() if value is not None}
    _refuse_contradictions(given, overrides)
    if model is None:
        asked = (values_of_file | overrides | given).get("device", "auto")
        model = _choose_preset(data, out, config, init_from, device=str(asked))
    architecture = find_preset(model).architecture
    recipe = resolve_recipe(
        model,
        architecture,
        [
            (model, preset_values(model)),
            *([(str(config), values_of_file)] if config else []),
            ("--set", overrides),
            ("command line", given),
        ],
    )
    if "WORLD_SIZE" not in os.environ:  # else a process would leave others waiting
        read_info(data)  # no data folder: told of before torch is loaded
    if dry_run:
        from nmt import console
        from nmt.training.dry_run import dry_run as try_training

        if rows := try_training(recipe, data, out, init_from):
            console.print_table(("what", "value"), rows)
        return
    from nmt.training.launch import launch

    launch(recipe, data, out, init_from, deadline=deadline, verify_resume=verify_resume)


def _choose_preset(
    data: Path, out: Path, config: Path | None, init_from: Path | None, *, device: str
) -> str:
    """Return the preset of the run that goes on or is repeated, or else one that fits, and say so.

    Raises:
        DataError: if there is no data folder.
        UsageError: for weights of a model whose preset is not known.
    """
    from nmt import console
    from nmt.config import noted_preset
    from nmt.data.manifest import read_info
    from nmt.models.presets import FEW_PAIRS, preset_for

    noted = noted_preset(out / "config.toml") or (noted_preset(config) if config else "")
    if noted:
        return noted
    if init_from is not None:
        raise UsageError(f"--init-from {init_from} also needs --model: the preset of that model")
    pairs = read_info(data).train.pairs
    gpu = device == "cuda"
    if device == "auto" and pairs >= FEW_PAIRS:
        import torch

        gpu = torch.cuda.is_available()
    name, reason = preset_for(pairs, gpu=gpu)
    console.notice(f"no --model given: taking {name}, because {reason}")
    return name


def _refuse_contradictions(given: Mapping[str, object], overrides: Mapping[str, object]) -> None:
    """Refuse a key that an option of its own and --set give different values; equal ones may be."""
    from nmt.config import TrainingConfig
    from nmt.model_config import checked

    specs = {spec.name: spec for spec in dataclasses.fields(TrainingConfig)}
    for key in given.keys() & overrides.keys():
        with contextlib.suppress(ValueError):  # which is reported with all other problems
            if checked(specs[key], given[key]) != checked(specs[key], overrides[key]):
                raise UsageError(
                    f"--{key.replace('_', '-')} {given[key]} and --set {key}={overrides[key]} "
                    "contradict each other; give one of them"
                )
