"""`nmt models`: the registry, and what its models have, do and take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.options import Quiet, preset_names

if TYPE_CHECKING:
    from nmt.config import Recipe

EXAMPLES = (
    "nmt models",
    "nmt models transformer_big --vocab-size 37000",
    "nmt models --compare transformer_base transformer_big",
)


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A preset, to see all of its values and what it costs.",
            autocompletion=preset_names,
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", help="Compare two presets."),
    ] = None,
    vocab_size: Annotated[
        int, typer.Option("--vocab-size", min=4, help="Size of the joint vocabulary to count with.")
    ] = 37_000,
    length: Annotated[
        int,
        typer.Option(
            "--length",
            min=1,
            max=1_000,
            help="Tokens of a sentence, to count the work.",
        ),
    ] = 25,
    micro_batch_tokens: Annotated[
        int,
        typer.Option(
            "--micro-batch-tokens",
            min=1,
            max=1_000_000,
            help="Tokens of a micro-batch, to count the memory.",
        ),
    ] = 2_048,
    quiet: Quiet = False,
) -> None:
    """Show the presets, what each changes in its parent, and their parameters.

    With NAME you get a recipe that holds every value of the preset. Comments above it show the
    parameters of each part, the multiply-adds for a target token in training and in greedy search,
    the memory that training takes, and the paper's results if the preset is a row of its Table 3.
    With --compare you see the values that differ, and both models' costs side by side.
    """
    from nmt.errors import UsageError

    if name is not None and compare is not None:
        raise UsageError("--compare takes both presets: name none beside it")
    if micro_batch_tokens < length:
        raise UsageError(
            f"--micro-batch-tokens {micro_batch_tokens} holds no sentence of {length} tokens; "
            "raise it, or lower --length"
        )
    sizes = vocab_size, length, micro_batch_tokens
    if name is not None:
        _show(name, *sizes)
    elif compare is not None:
        _compare(*compare, *sizes)
    else:
        _list(vocab_size)


def _resolve(preset: str) -> Recipe:
    from nmt.config import resolve_recipe
    from nmt.models.presets import find_preset, preset_values

    architecture = find_preset(preset).architecture
    return resolve_recipe(preset, architecture, [(preset, preset_values(preset))])


def _show(name: str, *sizes: int) -> None:
    from nmt.cli.model_figures import model_figures
    from nmt.config import format_toml
    from nmt.models.presets import find_preset

    recipe = _resolve(name)
    figures = model_figures(recipe, *sizes)
    labels, values = (max(map(len, column)) for column in (figures, figures.values()))
    print(f"# {name}: {find_preset(name).summary}")
    for label, value in figures.items():
        print(f"# {label:<{labels}}  {value:>{values}}")
    print()
    print(format_toml({"model": recipe.model, "training": recipe.training}), end="")


def _compare(first: str, second: str, *sizes: int) -> None:
    from nmt import console
    from nmt.cli.model_figures import model_figures

    recipes = [_resolve(preset) for preset in (first, second)]
    values = _side_by_side(*map(_values, recipes))
    differing = [row for row in values if row[1] != row[2]]
    figures = _side_by_side(*(model_figures(recipe, *sizes) for recipe in recipes))
    console.print_table(
        ("what", first, second), [*differing, *figures], line_behind=[len(differing) - 1]
    )


def _values(recipe: Recipe) -> dict[str, str]:
    from dataclasses import asdict

    values = asdict(recipe.model) | asdict(recipe.training)
    return {"architecture": recipe.architecture} | {
        key: json.dumps(value) for key, value in values.items()
    }


def _side_by_side(a: dict[str, str], b: dict[str, str]) -> list[tuple[str, str, str]]:
    return [(key, a.get(key, "-"), b.get(key, "-")) for key in a | b]


def _list(vocab_size: int) -> None:
    from nmt import console
    from nmt.models.presets import BODY_PARAMETERS, FAMILIES

    rows: list[tuple[str, str, str, str]] = []
    ends = []
    for family in FAMILIES.values():
        for name, preset in family.items():
            changes = ", ".join(f"{key}={value}" for key, value in preset.changes.items())
            parent = preset.parent or "class defaults"
            differs = f"{parent}: {changes}" if changes else parent
            count = BODY_PARAMETERS[name] + vocab_size * _resolve(name).model.d_model
            rows.append((name, preset.summary, differs, f"{count / 1e6:.1f}M"))
        ends.append(len(rows) - 1)
    console.print_table(
        ("preset", "what it is", "parent and what differs", "parameters"), rows, line_behind=ends
    )
