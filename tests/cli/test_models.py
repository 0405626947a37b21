"""`nmt models`: all presets, and one as a recipe."""

import re
import sys
from pathlib import Path

import pytest
from command_line import Nmt

from nmt.config.fields import Value
from nmt.config.presets import CHOICES, PRESETS, body_parameters, preset_values
from nmt.config.recipes import Recipe, read_toml, resolve_recipe
from nmt.interchange.programs import opens_in
from nmt.models.model_file import read_card
from nmt.models.registry import ARCHITECTURES, count_parameters
from nmt.runs.run_folder import RunFolder


def resolved(preset: str, **values: Value) -> Recipe:
    changed = preset_values(preset) | values
    return resolve_recipe(preset, PRESETS[preset].architecture, [("preset", changed)])


def parameters(preset: str, vocab_size: int) -> int:
    recipe = resolved(preset)
    return count_parameters(recipe.architecture, recipe.model, vocab_size, vocab_size)


BY_SIZE = sorted(PRESETS, key=lambda name: parameters(name, 1_000))
SMALLEST = [
    next(name for name in BY_SIZE if PRESETS[name].architecture == architecture)
    for architecture in ARCHITECTURES
]


def rows_in(table: str) -> list[list[str]]:
    return [line.split("\t") for line in table.splitlines()]


@pytest.mark.parametrize("vocab_size", [1_000, 37_000])
def test_the_table_lists_every_preset_with_its_parameters(nmt: Nmt, vocab_size: int) -> None:
    answer = nmt("models", "--all", "--vocab-size", str(vocab_size))
    assert (answer.status, answer.stderr) == (0, "")
    header, *rows = rows_in(answer.stdout)
    named = ["preset", "what it is", "parent and what differs", "parameters", "opens in"]
    assert header == named
    assert [row[0] for row in rows] == list(PRESETS)
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["transformer_base"][1] == "class defaults"
    assert by_name["transformer_big"][1].startswith("transformer_base: d_model=1024, d_ff=4096")
    counts = {
        name: body_parameters(name)
        + vocab_size * (resolved(name).model.d_model + ("student" in name))  # which have a bias
        for name in PRESETS
    }
    assert counts == {name: parameters(name, vocab_size) for name in PRESETS}
    assert {row[0]: row[3] for row in rows} == {n: f"{c / 1e6:.1f}M" for n, c in counts.items()}


def test_a_narrow_terminal_shows_the_presets_that_people_choose_with_their_names_whole(
    nmt: Nmt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = re.sub(r"\x1b\[\d*m", "", nmt("models").stdout).splitlines()
    assert max(map(len, lines)) <= 80
    shown = [line.split()[:4] for line in lines if line[0] != " "]
    assert [row[0] for row in shown] == ["preset", *CHOICES]
    assert ["transformer_base", "6+6", "512", "63.0M"] in shown


@pytest.mark.parametrize("preset", SMALLEST)
def test_a_preset_is_printed_as_recipe_of_its_values(nmt: Nmt, tmp_path: Path, preset: str) -> None:
    answer = nmt("models", preset, "--vocab-size", "1000")
    assert (answer.status, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"# {preset}: {PRESETS[preset].summary}\n")
    wanted = resolved(preset)
    path = tmp_path / "recipe.toml"
    path.write_text(answer.stdout)
    assert resolve_recipe(preset, wanted.architecture, [("file", read_toml(path))]) == wanted
    assert f"\n# parameters  {parameters(preset, 1_000) / 1e6:.1f}M, with" in answer.stdout


def test_a_run_and_a_model_file_are_described(nmt: Nmt, learnt: Path, model_file: Path) -> None:
    shown = dict(rows_in(nmt("models", learnt).succeeded().stdout))
    card, kept = read_card(learnt / "best.safetensors"), RunFolder(learnt).own_values()
    size = len(card.src_vocabulary)
    weights = count_parameters(card.architecture, card.config, size, size)
    wanted = ["en-de", kept[0], f"{size:,}", f"{weights:,}", f"{card.update:,}"]
    assert list(shown.values())[2:7] == wanted
    assert f"bleu {card.valid['bleu']:.4g}" in shown["valid"]
    assert shown["opens in"] == opens_in(card.config)
    assert dict(rows_in(nmt("models", model_file).stdout))["preset"] == "not known"
