"""`nmt models`: the presets, and what their models cost."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt import console
from nmt.cli.options import Quiet, preset_names
from nmt.config.fields import value
from nmt.config.presets import (
    CHOICES,
    FAMILIES,
    PRESETS,
    TABLE_3,
    body_parameters,
    find_preset,
    preset_values,
)
from nmt.errors import UsageError
from nmt.interchange.programs import needs, opens_in

if TYPE_CHECKING:
    from nmt.config.recipes import Recipe

EXAMPLES = (
    "nmt models",
    "nmt models --all",
    "nmt models transformer_big --vocab-size 37000",
    "nmt models --compare transformer_base transformer_big",
)


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A preset, to see all of its values and what it costs.",
            autocompletion=preset_names,
        ),
    ] = None,
    *,
    compare: tuple[str, str] | None = value(
        None, "Compare two presets.", metavar="A B", completion=preset_names
    ),
    every: bool = value(
        False, "List all presets, and what each changes in its parent.", option="--all"
    ),
    vocab_size: int = value(37_000, "Size of the joint vocabulary to count with.", minimum=4),
    length: int = value(25, "Tokens of a sentence, to count the work.", minimum=1, maximum=1_000),
    micro_batch_tokens: int = value(
        2_048, "Tokens of a micro-batch, to count the memory.", minimum=1, maximum=1_000_000
    ),
    quiet: Quiet = False,
) -> None:
    """Show which preset to choose, and how large its model is.

    With NAME you get a recipe that holds every value of the preset. Comments above it show which
    programs open its exports and what the others need, the parameters of each part, the
    multiply-adds for a target token in training and in greedy search, the memory that training
    takes, and the paper's results if the preset is a row of its Table 3.
    With --compare you see the values that differ, and both models' costs side by side.
    """
    if name is not None and compare is not None:
        raise UsageError("--compare takes both presets; leave out NAME")
    if every and (name is not None or compare is not None):
        raise UsageError("--all lists all presets; leave out the others")
    if micro_batch_tokens < length:
        raise UsageError(
            f"--micro-batch-tokens {micro_batch_tokens} cannot hold a sentence of {length} tokens; "
            "raise it, or lower --length"
        )
    sizes = vocab_size, length, micro_batch_tokens
    if name is not None:
        _show(name, *sizes)
    elif compare is not None:
        _compare(*compare, *sizes)
    elif every:
        _list_all(vocab_size)
    else:
        _list(vocab_size)
        console.notice(
            f"parameters are with a vocabulary of {vocab_size:,} (--vocab-size); "
            f"`nmt models --all` lists all {len(PRESETS)}"
        )


def _resolve(preset: str) -> Recipe:
    from nmt.config.recipes import resolve_recipe

    architecture = find_preset(preset).architecture
    return resolve_recipe(preset, architecture, [(preset, preset_values(preset))])


def _show(name: str, *sizes: int) -> None:
    from nmt.config.recipes import format_toml

    recipe = _resolve(name)
    costs = _costs(recipe, *sizes)
    labels, values = (max(map(len, column)) for column in (costs, costs.values()))
    console.print_row(f"# {name}: {find_preset(name).summary}")
    console.print_row(f"# opens in  {opens_in(recipe.model)}")
    for program, advice in needs(recipe.model).items():
        if advice is not None:
            console.print_row(f"# for {program}  {advice}")
    for label, cost in costs.items():
        console.print_row(f"# {label:<{labels}}  {cost:>{values}}")
    console.print_row()
    console.print_text(format_toml(recipe.sections))


def _compare(first: str, second: str, *sizes: int) -> None:
    recipes = [_resolve(preset) for preset in (first, second)]
    values = _side_by_side(*map(_values, recipes))
    differing = [row for row in values if row[1] != row[2]]
    costs = _side_by_side(*(_costs(recipe, *sizes) for recipe in recipes))
    console.print_table(
        ("what", first, second), [*differing, *costs], line_after=[len(differing) - 1]
    )


def _values(recipe: Recipe) -> dict[str, str]:
    return {"architecture": recipe.architecture} | {
        key: json.dumps(value)
        for section in recipe.sections.values()
        for key, value in dataclasses.asdict(section).items()
    }


def _side_by_side(a: dict[str, str], b: dict[str, str]) -> list[tuple[str, str, str]]:
    return [(key, a.get(key, "-"), b.get(key, "-")) for key in a | b]


def _list(vocab_size: int) -> None:
    rows: list[tuple[str, ...]] = []
    for name, when in CHOICES.items():
        model: Any = _resolve(name).model
        layers = f"{model.num_encoder_layers}+{model.num_decoder_layers}"
        sizes = layers, f"{model.d_model:,}"
        rows.append((name, *sizes, _parameters(name, vocab_size), when, opens_in(model)))
    columns = ("preset", "layers", "width", "parameters", "take it when", "opens in")
    console.print_table(columns, rows)


def _parameters(name: str, vocab_size: int) -> str:
    model = _resolve(name).model
    of_token = model.d_model + getattr(model, "output_bias", False)
    return f"{(body_parameters(name) + vocab_size * of_token) / 1e6:.1f}M"


def _list_all(vocab_size: int) -> None:
    rows: list[tuple[str, ...]] = []
    ends = []
    for family in FAMILIES.values():
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


def _costs(recipe: Recipe, vocab_size: int, length: int, micro_batch_tokens: int) -> dict[str, str]:
    """Return parameters, work and memory of a model, and the paper's results, by their names.

    Both sides have sentences of `length` tokens with eos, and the same vocabulary and micro-batch.
    """
    from nmt.data.batches import LengthSums
    from nmt.models.flops import MULTIPLY_ADDS, decoding_multiply_adds
    from nmt.models.registry import build_model, parameter_parts, shapes_only
    from nmt.system.files import megabytes
    from nmt.training.memory import even_batch, memory_needs

    with shapes_only():
        model = build_model(recipe.architecture, recipe.model, vocab_size, vocab_size).eval()
    parts = parameter_parts(model)
    total = sum(count for kinds in parts.values() for count in kinds.values())
    rows = {f"parameters, joint vocabulary of {vocab_size:,}": f"{total:,}"}
    for part, kinds in parts.items():
        rows[f"parameters: {part}"] = f"{sum(kinds.values()):,}"
        if len(kinds) > 1:
            rows |= {f"parameters: {part}: {kind}": f"{n:,}" for kind, n in kinds.items()}

    pair = LengthSums(length, length, length**2, length**2, length**2)
    training = MULTIPLY_ADDS[recipe.architecture](recipe.model, vocab_size, pair)
    middle = (length + 1) // 2  # the work of this step is about the mean of all steps
    encoding, step = decoding_multiply_adds(model, length, middle)
    work = "multiply-adds a target token"
    rows[f"{work}: training, forward pass, {length} tokens a side"] = f"{training / length:,.0f}"
    rows[f"{work}: decoding, step {middle} after {length} source tokens"] = f"{step:,}"
    rows[f"{work}: decoding, and its share of encoding"] = f"{step + encoding / length:,.0f}"

    sizes = vocab_size, vocab_size
    batch = even_batch(micro_batch_tokens, length, vocab_size)
    for precision in ("fp32", "bf16"):
        training_config = dataclasses.replace(recipe.training, precision=precision)
        in_precision = dataclasses.replace(recipe, training=training_config)
        memory = memory_needs(in_precision, sizes, batch)
        memory[f"micro-batch of {micro_batch_tokens:,} tokens a side"] = memory.pop("micro-batch")
        rows |= {f"memory in {precision}: {name}": megabytes(n) for name, n in memory.items()}

    if recipe.preset in TABLE_3:
        paper = TABLE_3[recipe.preset]
        rows |= {
            "Table 3 of the paper: row": paper.row,
            "Table 3 of the paper: parameters": f"{paper.parameters}M",
            "Table 3 of the paper: perplexity on newstest2013": f"{paper.perplexity:.2f}",
            "Table 3 of the paper: BLEU on newstest2013": f"{paper.bleu:.1f}",
        }
    return rows
