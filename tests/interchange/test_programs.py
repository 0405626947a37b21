"""Which programs open a model, and what makes one that they open."""

import dataclasses
import importlib
import inspect
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Nmt

from nmt.cli.export import EXPORTERS
from nmt.config.model_config import ModelConfig, TransformerConfig
from nmt.config.presets import CHOICES, PRESETS, preset_values
from nmt.config.recipes import Layer, parse_overrides, resolve_recipe
from nmt.interchange.programs import DISTILL, PROGRAMS, needs, opening, opens_in, portable_preset
from nmt.models.model_file import ModelCard

MANUAL = Path(__file__).parents[2] / "nmt" / "models" / "README.md"


def model_of(preset: str, *options: str) -> ModelConfig:
    """Return the values that `nmt train` gives a model with these options."""
    if options[:1] == ("--model",):
        return model_of(options[1])
    layers: list[Layer] = [(preset, preset_values(preset))]
    layers.append(("--set", parse_overrides([each for each in options if each != "--set"])))
    return resolve_recipe(preset, PRESETS[preset].architecture, layers).model


def test_every_format_of_models_has_its_program() -> None:
    assert list(PROGRAMS) == list(EXPORTERS)


@pytest.mark.parametrize("form", EXPORTERS)
def test_the_options_of_a_format_are_those_of_its_export(form: str) -> None:
    module = importlib.import_module(f"nmt.interchange.{EXPORTERS[form].module}")
    _, _, *options = inspect.signature(getattr(module, f"export_{form}")).parameters
    assert tuple(options) == EXPORTERS[form].options


@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_program_needs_makes_a_model_that_it_opens(preset: str) -> None:
    for program, advice in needs(model_of(preset)).items():
        if advice is not None:
            assert needs(model_of(preset, *shlex.split(advice)))[program] is None


def test_widths_become_multiples_that_the_heads_share() -> None:
    config = TransformerConfig(d_model=200, d_ff=100, num_heads=5)
    (form,) = PROGRAMS["bergamot"].forms
    changes = form.changes(config)
    assert (changes["d_model"], changes["d_ff"]) == (320, 128)
    assert not replace(config, **changes).problems()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("usual", "portable"),
    [
        ("transformer_small", "transformer_portable"),
        ("transformer_low_resource", "transformer_portable_few"),
    ],
)
def test_a_portable_preset_opens_anywhere_and_is_named_by_size(usual: str, portable: str) -> None:
    assert not any(needs(model_of(portable)).values())
    assert portable_preset(model_of(portable)) == portable
    advice = f"take --model {portable}, or make a student of the finished run: {DISTILL}"
    assert opening(model_of(usual), is_chosen=False).endswith(advice)


@pytest.mark.parametrize("preset", [name for name in CHOICES if name.startswith("transformer")])
def test_exporters_say_of_a_model_what_is_said_of_its_preset(preset: str, card: ModelCard) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    config = model_of(preset)
    trained = replace(card, config=config)
    fitting = []
    for form, program in PROGRAMS.items():
        exporter = importlib.import_module(f"nmt.interchange.{EXPORTERS[form].module}")
        fitting += [] if exporter.fault_of(trained) else [program.name]
    assert ", ".join(fitting) == opens_in(config)


def test_the_manual_says_what_opens_the_presets() -> None:
    _, table = MANUAL.read_text(encoding="utf-8").split("\n| preset | opens in |\n")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table.split("\n\n")[0], re.MULTILINE)
    assert rows == [(name, opens_in(model_of(name))) for name in CHOICES]


def test_a_preset_is_shown_with_what_other_programs_need(nmt: Nmt) -> None:
    shown = nmt("models", "transformer_small").stdout.splitlines()
    config = model_of("transformer_small")
    assert f"# opens in  {opens_in(config)}" in shown
    for program, advice in needs(config).items():
        assert (f"# for {program}  {advice}" in shown) == (advice is not None)


def test_every_value_of_a_form_is_one_of_a_model() -> None:
    known = {spec.name: spec.metadata["choices"] for spec in dataclasses.fields(TransformerConfig)}
    for program in PROGRAMS.values():
        for form in program.forms:
            for key, values in form.values.items():
                assert not known[key] or not values or set(values) <= set(known[key])


def test_no_one_is_told_to_train_pre_norm_for_a_program_that_translates_otherwise() -> None:
    advice = needs(model_of("transformer_modern"))
    for program in ("transformers", "Marian", "Bergamot"):
        assert advice[program] == "--model transformer_portable"
