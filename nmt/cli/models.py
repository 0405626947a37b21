"""`nmt models`: the registry."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt.cli.options import Quiet

EXAMPLE = "nmt models transformer_big --vocab-size 37000"


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A preset, to see all of its values.")
    ] = None,
    vocab_size: Annotated[
        int, typer.Option("--vocab-size", min=4, help="Count parameters for this joint vocabulary.")
    ] = 37_000,
    quiet: Quiet = False,
) -> None:
    """Show the registry: presets, what differs from their parents, and parameters.

    With NAME, every value that the preset resolves to, as `nmt train` writes it to config.toml.
    """
    from nmt import console
    from nmt.config import resolve_recipe
    from nmt.config_text import format_toml
    from nmt.models.registry import PRESETS, count_parameters, find_preset, preset_values

    def resolve(preset: str) -> tuple[object, object, int]:
        architecture = find_preset(preset).architecture
        recipe = resolve_recipe(preset, architecture, [(preset, preset_values(preset))])
        count = count_parameters(architecture, recipe.model, vocab_size, vocab_size)
        return recipe.model, recipe.training, count

    if name is not None:
        model, training, count = resolve(name)
        print(f"# {name}: {find_preset(name).summary}")
        print(f"# {count:,} parameters with a joint vocabulary of {vocab_size:,}")
        print(format_toml({"model": model, "training": training}), end="")
        return
    rows = []
    for preset_name, preset in PRESETS.items():
        changes = ", ".join(f"{key}={value}" for key, value in preset.changes.items())
        parent = f"{preset.parent}: {changes}" if preset.parent else "class defaults"
        count = resolve(preset_name)[2]
        rows.append((preset_name, preset.summary, parent, f"{count / 1e6:.1f}M"))
    console.print_table(("preset", "what it is", "parent and what differs", "parameters"), rows)
