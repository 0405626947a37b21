"""`nmt models`: the presets, their values and sizes, and what opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nmt import console
from nmt.cli.options import Quiet, argument, preset_names
from nmt.config import presets
from nmt.config.fields import value
from nmt.errors import UsageError
from nmt.interchange.programs import needs, opens_in

if TYPE_CHECKING:
    from nmt.config.recipes import Recipe

EXAMPLES = (
    "nmt models",
    "nmt models --all",
    "nmt models transformer_big --vocab-size 37000",
)


def models(
    name: Annotated[
        str | None,
        argument("NAME", "A preset, to see all of its values.", autocompletion=preset_names),
    ] = None,
    *,
    every: bool = value(
        False, "List all presets, and what each changes in its parent.", option="--all"
    ),
    vocab_size: int = value(37_000, "Size of the joint vocabulary to count with.", minimum=4),
    quiet: Quiet = False,
) -> None:
    """Show which preset to choose, and how large its model is.

    With NAME you get a recipe that holds every value of the preset. Comments above it show which
    programs open its exports and what the others need, and how many parameters it has. What
    training takes on your data and machine, `nmt train --dry-run` estimates.
    """
    if every and name is not None:
        raise UsageError("--all lists all presets; leave out NAME")
    if name is not None:
        _show(name, vocab_size)
    elif every:
        _list_all(vocab_size)
    else:
        _list(vocab_size)
        console.notice(
            f"parameters are with a vocabulary of {vocab_size:,} (--vocab-size); "
            f"`nmt models --all` lists all {len(presets.PRESETS)}"
        )


def _resolve(preset: str) -> Recipe:
    from nmt.config.recipes import resolve_recipe

    architecture = presets.find_preset(preset).architecture
    return resolve_recipe(preset, architecture, [(preset, presets.preset_values(preset))])


def _show(name: str, vocab_size: int) -> None:
    from nmt.config.recipes import format_toml

    recipe = _resolve(name)
    console.print_row(f"# {name}: {presets.find_preset(name).summary}")
    console.print_row(f"# opens in  {opens_in(recipe.model)}")
    for program, advice in needs(recipe.model).items():
        if advice is not None:
            console.print_row(f"# for {program}  {advice}")
    count = _parameters(name, vocab_size)
    console.print_row(f"# parameters  {count}, with a joint vocabulary of {vocab_size:,}")
    console.print_row()
    console.print_text(format_toml(recipe.sections))


def _list(vocab_size: int) -> None:
    rows: list[tuple[str, ...]] = []
    for name, when in presets.CHOICES.items():
        model: Any = _resolve(name).model
        layers = f"{model.num_encoder_layers}+{model.num_decoder_layers}"
        sizes = layers, f"{model.d_model:,}"
        rows.append((name, *sizes, _parameters(name, vocab_size), when, opens_in(model)))
    columns = ("preset", "layers", "width", "parameters", "take it when", "opens in")
    console.print_table(columns, rows)


def _parameters(name: str, vocab_size: int) -> str:
    model = _resolve(name).model
    of_token = model.d_model + getattr(model, "output_bias", False)
    return f"{(presets.body_parameters(name) + vocab_size * of_token) / 1e6:.1f}M"


def _list_all(vocab_size: int) -> None:
    rows: list[tuple[str, ...]] = []
    ends = []
    for family in presets.FAMILIES.values():
        for name, preset in family.items():
            changes = ", ".join(f"{key}={value}" for key, value in preset.changes.items())
            parent = preset.parent or "class defaults"
            differs = f"{parent}: {changes}" if changes else parent
            opened = opens_in(_resolve(name).model)
            rows.append((name, preset.summary, differs, _parameters(name, vocab_size), opened))
        ends.append(len(rows) - 1)
    console.print_table(
        ("preset", "what it is", "parent and what differs", "parameters", "opens in"),
        rows,
        line_after=ends,
    )
