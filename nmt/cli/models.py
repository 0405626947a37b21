"""`nmt models`: the presets, their values and sizes, and what opens them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nmt import console
from nmt.cli.options import Quiet, argument, preset_names
from nmt.config import presets
from nmt.config.fields import value
from nmt.data.language_tokens import spell_pair
from nmt.errors import UsageError
from nmt.interchange.programs import PROGRAMS, needs, opens_in
from nmt.system.files import is_there

if TYPE_CHECKING:
    from nmt.config.recipes import Recipe

EXAMPLES = (
    "nmt models",
    "nmt models --all",
    "nmt models transformer_big --vocab-size 37000",
    "nmt models run",
)
_VOCAB_SIZE = 37_000


def models(
    name: Annotated[
        str | None,
        argument(
            "NAME",
            "A preset, to see all of its values; or a run folder or model file, to see what it is.",
            autocompletion=preset_names,
        ),
    ] = None,
    *,
    every: bool = value(
        False, "List all presets, and what each changes in its parent.", option="--all"
    ),
    vocab_size: int = value(_VOCAB_SIZE, "Size of the joint vocabulary to count with.", minimum=4),
    quiet: Quiet = False,
) -> None:
    """Show which preset to choose, and how large its model is.

    With NAME you get a recipe that holds every value of the preset. Comments above it show which
    programs open its exports and what the others need, and how many parameters it has. What
    training takes on your data and machine, `nmt train --dry-run` estimates.

    If NAME is a run folder or a model file, you see its languages, sizes and scores, and which
    programs open it.
    """
    if every and name is not None:
        raise UsageError("--all lists all presets; leave out NAME")
    if name is not None and name not in presets.PRESETS and is_there(Path(name)):
        if vocab_size != _VOCAB_SIZE:
            raise UsageError(f"--vocab-size is for presets, and {name} has its own; leave it out")
        _describe(Path(name))
    elif name is not None:
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


def _describe(path: Path) -> None:
    from nmt.cli.export import EXPORTERS, fault_of
    from nmt.config.recipes import recorded_run
    from nmt.models.model_file import find_model, read_card
    from nmt.models.registry import count_parameters
    from nmt.runs.run_folder import run_of

    model = find_model(path)
    card, run = read_card(model), run_of(model)
    sizes = len(card.src_vocabulary), len(card.tgt_vocabulary)
    languages = card.languages and (card.languages.pairs or card.languages.pieces)
    fitting = [form for form, exporter in EXPORTERS.items() if not fault_of(exporter, model)]
    rows = {
        "model": str(model),
        "languages": ", ".join(languages or [spell_pair((card.src_lang, card.tgt_lang))]),
        "preset": str(recorded_run(run.config)["preset"]) if run else "",
        "vocabulary": " and ".join(f"{size:,}" for size in dict.fromkeys(sizes)),
        "parameters": f"{count_parameters(card.architecture, card.config, *sizes):,}",
        "updates": f"{card.update:,}" if card.update else "",
        "valid": ", ".join(f"{name} {score:.4g}" for name, score in card.valid.items()),
        "opens in": ", ".join(PROGRAMS[form].name for form in fitting) or "none",
    }
    console.print_table(("what", "value"), [(k, v or "not known") for k, v in rows.items()])


def _list(vocab_size: int) -> None:
    rows: list[tuple[str, ...]] = []
    for name, when in presets.CHOICES.items():
        model: Any = _resolve(name).model
        sizes = f"{model.num_encoder_layers}+{model.num_decoder_layers}", f"{model.d_model:,}"
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
    columns = ("preset", "what it is", "parent and what differs", "parameters", "opens in")
    console.print_table(columns, rows, line_after=ends)
