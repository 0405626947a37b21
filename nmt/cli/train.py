"""`nmt train`: a data folder to a run folder."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt import console
from nmt.cli.options import Quiet, Verbose, argument, completion, preset_names
from nmt.config import recipes
from nmt.config.fields import like, value
from nmt.config.training_config import TrainingConfig
from nmt.errors import UsageError
from nmt.interchange.programs import opening

if TYPE_CHECKING:  # which load torch
    from nmt.training.choose_recipe import TrainCommand

EXAMPLES = (
    "nmt train data --out run --model transformer_small --set dropout=0.3",
    "nmt train news --out tuned --init-from en-de.safetensors",
    "nmt train data --out run --processes 8",
)


_AUTO = "auto"


def _shorthand(
    name: str, metavar: str | None = None, panel: str | None = "Shorthand for --set"
) -> Any:
    """Declare an option for a value of the recipe, which sets it if it is given."""
    return like(TrainingConfig, name, panel=panel, shown="from the preset", metavar=metavar)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shorthands:
    """The values of a recipe that have an option of their own; None: not given."""

    max_updates: int | None = _shorthand("max_updates", panel=None)
    batch_tokens: int | None = _shorthand("batch_tokens")
    micro_batch_tokens: str | None = _shorthand("micro_batch_tokens", metavar="N|auto")
    precision: str | None = _shorthand("precision")
    device: str | None = _shorthand("device", panel=None)
    seed: int | None = _shorthand("seed")

    def given(self) -> dict[str, object]:
        """Return the values that are given."""
        values = dataclasses.asdict(self)
        if self.micro_batch_tokens == "auto":
            values["micro_batch_tokens"] = 0
        return {key: value for key, value in values.items() if value is not None}


def _complete_assignment(incomplete: str) -> list[str]:
    """Return the keys of recipes, or the choices of one, that begin with what has been typed."""
    specs = recipes.recipe_fields()
    key, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in completion(specs)(key)]
    choices = specs[key].metadata["choices"] if key in specs else ()
    return [f"{key}={choice}" for choice in completion(choices)(value)]


def train(
    data: Annotated[Path, argument("DATA", "A data folder that `nmt prepare` wrote.")],
    *,
    out: Path = value(..., "Run folder to create, or to go on with.", short="-o", metavar="RUN"),
    model: str | None = value(
        None,
        "A preset. `nmt models` lists them.",
        shown="the run's, or what fits data and machine",
        completion=preset_names,
    ),
    config: Path | None = value(
        None,
        "Recipe with values under \\[model], \\[training] and \\[augment] that override the "
        "preset's.",
        metavar="FILE.toml",
    ),
    init_from: Path | None = value(
        None,
        "Start from the weights of a model file or of a run's best model. Without --model, "
        "architecture and sizes are its own, and the data must have its vocabulary. With --model, "
        "parameters with the same name and shape are copied, and embeddings of the subwords in "
        "common.",
        metavar="MODEL_OR_RUN",
    ),
    assignments: tuple[str, ...] = value(
        (),
        "Set one value, over preset and recipe. You can repeat it. `nmt models NAME` lists all "
        "keys.",
        option="--set",
        metavar="KEY=VALUE",
        completion=_complete_assignment,
    ),
    shorthands: Shorthands,
    dry_run: bool = value(
        False,
        "Write nothing. Train for some seconds in memory, and show how long the run would take, "
        "and how much memory and disk; --verbose shows more. To estimate eight processes that you "
        "cannot start here, set WORLD_SIZE=8 in the environment.",
    ),
    processes: str | None = value(
        None,
        "Processes that share each update, on this machine. auto: one a GPU, or on CPUs one a core "
        "where that is faster.",
        metavar="auto|N",
        shown="the run's, or that of a run's config.toml, or auto",
    ),
    time_limit: str | None = value(
        None,
        "Save and stop after this time: minutes, 1h30m, HH:MM or H:MM:SS. Saving may take 20 "
        "seconds more.",
        metavar="TIME",
    ),
    deadline: str | None = value(None, "Save and stop at this time of day.", metavar="HH:MM"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a model on a data folder.

    The run folder holds checkpoints, the best and the last model, the full configuration, a log,
    metrics.jsonl and curves.svg. You can stop with Ctrl-C, SIGTERM or --time-limit: everything is
    saved, and the exit status is 75. To go on, DATA and --out are enough: a run keeps its own
    values. Only what you give anew changes, and is named. To train a finished run for longer, give
    a larger --max-updates. With schedule=linear or cosine, the learning rate then jumps up.

    To fine-tune a model, prepare the data with its vocabulary and name it with --init-from. If you
    want to keep the encoder's weights as they are, add --set 'freeze=encoder.*'.

    All GPUs of the machine are used, or all its cores. An update holds the same pairs on any number
    of processes. To use several machines, start the same command by torchrun on each.
    """
    started = time.monotonic()
    from nmt.data.manifest import read_info
    from nmt.jobs.deadline import first_limit
    from nmt.runs.run_folder import RunFolder
    from nmt.training.choose_recipe import TrainCommand, choose_recipe

    asked = number_of_processes(processes)
    stops_at = started + first_limit(time_limit, deadline)[0]
    overrides, given = recipes.parse_overrides(assignments), shorthands.given()
    recipes.refuse_two_values(given, overrides)
    run = RunFolder(out)
    is_first = "WORLD_SIZE" not in os.environ
    ranks = recipes.recorded_run(config).get("ranks") if config else None
    # The file is that of a run, which is repeated.
    if type(ranks) is int and processes is None and is_first and not run.exists:
        console.notice(f"no --processes given: taking {ranks}, as {config} had")
        asked = ranks
    options: list[tuple[str, object]] = [
        *((f"--{key.replace('_', '-')}", value) for key, value in given.items()),
        *(("--set", assignment) for assignment in assignments),
    ]
    options += [("--time-limit", time_limit), ("--deadline", deadline), ("--processes", asked)]
    options += [("--dry-run", dry_run), ("--quiet", quiet), ("--verbose", verbose)]
    command = TrainCommand(
        data, out, init_from=init_from, model=model, config=config, settings=_words(options)
    )
    world_size = int(os.environ.get("WORLD_SIZE", asked or 0))
    recipe = choose_recipe(command, overrides, given, processes=world_size)
    if is_first:  # under torchrun, all processes must fail together
        read_info(data)  # fails before torch is loaded
        run.check()
        if not run.exists:
            console.notice(opening(recipe.model, is_chosen=bool(model or init_from)))
        from nmt.training.setup import choose_processes

        kept_by = None if processes == _AUTO else run
        count, reason = choose_processes(asked, recipe, data, kept_by)
        command = dataclasses.replace(command, reason=reason)
    # Loaded here, so that the processes to start share it.
    from nmt.training.train import train as run_training

    work = partial(run_training, recipe, command, deadline=stops_at)
    if dry_run:
        work = partial(_try_training, recipe, command, verbose=verbose)
    if is_first and count > 1:
        from nmt.cli.command import exit_status
        from nmt.system.launch import launch

        raise typer.Exit(launch(partial(exit_status, work), count))
    work()


def _try_training(recipe: recipes.Recipe, command: TrainCommand, *, verbose: bool) -> None:
    from nmt.training.dry_run import MAIN_ROWS, dry_run

    if rows := dry_run(recipe, command):
        (_, answer), *details = rows
        console.print_row(answer)
        shown = [row for row in details if verbose or row[0] in MAIN_ROWS]
        console.print_table(("what", "value"), shown)


def number_of_processes(processes: str | None) -> int | None:
    """Return the number of processes on this machine that is given, or started; None: it is open.

    UsageError if it is no number above 0, or not the one that torchrun has started.
    """
    local, world = (os.environ.get(name) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    if processes in (None, _AUTO):
        return int(local) if local is not None and local == world else None
    if not (processes.isascii() and processes.isdecimal() and int(processes)):
        raise UsageError(f"--processes {processes}: must be auto, or a number from 1")
    if local not in (None, processes):
        raise UsageError(
            f"--processes {processes}, but torchrun has started {local} on this machine; leave "
            "--processes out"
        )
    return int(processes)


def _words(options: Sequence[tuple[str, object]]) -> tuple[str, ...]:
    """Return the options that are given, as words of a command line."""
    words: list[str] = []
    for option, given in options:
        if given is not None and given is not False:
            words += [option] if given is True else [option, str(given)]
    return tuple(words)
