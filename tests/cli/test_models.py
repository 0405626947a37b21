"""`nmt models`: the registry as a table, and each preset as a recipe that training accepts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.config import resolve_recipe
from nmt.config_text import read_toml
from nmt.models.registry import PRESETS, count_parameters, preset_values

Nmt = Callable[..., Any]


def test_the_table_lists_every_preset(nmt: Nmt) -> None:
    answer = nmt("models")
    assert (answer.status, answer.stderr) == (0, "")
    header, *rows = (line.split("\t") for line in answer.stdout.splitlines())
    assert header == ["preset", "what it is", "parent and what differs", "parameters"]
    assert [row[0] for row in rows] == list(PRESETS)
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["transformer_base"][1:] == ["class defaults", "63.0M"]
    assert by_name["transformer_big"][1].startswith("transformer_base: d_model=1024, d_ff=4096")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_printed_as_a_recipe_that_makes_the_same_values(
    nmt: Nmt, tmp_path: Path, preset: str
) -> None:
    answer = nmt("models", preset, "--vocab-size", "1000")
    assert (answer.status, answer.stderr) == (0, "")
    architecture = PRESETS[preset].architecture
    wanted = resolve_recipe(preset, architecture, [(preset, preset_values(preset))])
    path = tmp_path / "recipe.toml"
    path.write_text(answer.stdout)
    assert resolve_recipe(preset, architecture, [("file", read_toml(path))]) == wanted
    count = count_parameters(architecture, wanted.model, 1_000, 1_000)
    assert f"# {count:,} parameters with a joint vocabulary of 1,000" in answer.stdout


def test_an_unknown_preset_is_an_error_that_names_the_nearest(nmt: Nmt) -> None:
    answer = nmt("models", "transformer_bigg")
    assert (answer.status, answer.stdout) == (2, "")
    assert answer.stderr == (
        "nmt: error: unknown model 'transformer_bigg'; did you mean 'transformer_big'?\n"
    )
