"""`nmt train`: a data folder to a run folder."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.options import Quiet
from nmt.errors import UsageError

EXAMPLE = (
    "nmt train data --out run --model transformer_small --set dropout=0.3\n\n"
    "torchrun --nproc-per-node 8 -m nmt train data --out run --model transformer_big"
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
        str, typer.Option("--model", help="A preset of the registry (see `nmt models`).")
    ] = "transformer_base",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE.toml",
            help="Values under \\[model] and \\[training] that take the place of the preset's.",
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
            help="Updates after which training ends.",
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
    the exit status is 75, and the same command goes on bit for bit where it was. A finished run
    goes on with a larger --max-updates.

    Under torchrun the same command uses many GPUs or machines; an update holds the same pairs on
    any number of them.
    """
    started = time.monotonic()
    from nmt.config import parse_overrides, read_toml, resolve_recipe
    from nmt.models.registry import find_preset, preset_values

    shorthand = {
        "max_updates": max_updates,
        "batch_tokens": batch_tokens,
        "precision": precision,
        "device": device,
        "seed": seed,
    }
    architecture = find_preset(model).architecture
    recipe = resolve_recipe(
        model,
        architecture,
        [
            (model, preset_values(model)),
            *([(str(config), read_toml(config))] if config else []),
            ("--set", parse_overrides(assignments or [])),
            ("command line", {key: value for key, value in shorthand.items() if value is not None}),
        ],
    )
    if verify_resume and time_limit is not None:
        raise UsageError("--verify-resume trains nothing and takes no --time-limit")
    from nmt.training.stop import parse_time_limit

    deadline = started + parse_time_limit(time_limit) if time_limit is not None else math.inf
    from nmt.training.launch import launch

    launch(recipe, data, out, deadline=deadline, verify_resume=verify_resume)
