"""`nmt models`: all presets, one as a recipe with its costs, and two side by side."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import batch_of

from nmt.config import Recipe, format_toml, read_toml, resolve_recipe
from nmt.files import megabytes
from nmt.models.presets import FAMILIES, PRESETS, body_parameters, preset_values
from nmt.models.registry import ARCHITECTURES, count_parameters
from nmt.training.memory import memory_needs

Nmt = Callable[..., Any]


def resolved(preset: str) -> Recipe:
    return resolve_recipe(preset, PRESETS[preset].architecture, [("p", preset_values(preset))])


def parameters(preset: str, vocab_size: int) -> int:
    recipe = resolved(preset)
    return count_parameters(recipe.architecture, recipe.model, vocab_size, vocab_size)


def smallest_presets() -> list[str]:
    """Of each architecture."""
    families = [
        [name for name, preset in PRESETS.items() if preset.architecture == architecture]
        for architecture in ARCHITECTURES
    ]
    return [min(names, key=lambda name: parameters(name, 1_000)) for names in families]


SMALLEST = smallest_presets()


def costs_in(recipe: str) -> dict[str, str]:
    """Read the comments above a printed recipe, but for the first, which is the summary."""
    head = recipe[: recipe.index("\n\n")].splitlines()[1:]
    rows = (line.removeprefix("# ").rsplit("  ", 1) for line in head)
    return {label.strip(): value.strip() for label, value in rows}


def rows_in(table: str) -> list[list[str]]:
    return [line.split("\t") for line in table.splitlines()]


def test_the_table_lists_every_preset(nmt: Nmt) -> None:
    answer = nmt("models")
    assert (answer.status, answer.stderr) == (0, "")
    header, *rows = rows_in(answer.stdout)
    assert header == ["preset", "what it is", "parent and what differs", "parameters"]
    assert [row[0] for row in rows] == list(PRESETS)
    by_name = {row[0]: row[1:] for row in rows}
    assert by_name["transformer_base"][1:] == ["class defaults", "63.0M"]
    assert by_name["transformer_big"][1].startswith("transformer_base: d_model=1024, d_ff=4096")


@pytest.mark.parametrize("vocab_size", [1_000, 37_000])
def test_the_table_counts_what_the_models_have(nmt: Nmt, vocab_size: int) -> None:
    _, *rows = rows_in(nmt("models", "--vocab-size", str(vocab_size)).stdout)
    counts = {
        name: body_parameters(name) + vocab_size * resolved(name).model.d_model for name in PRESETS
    }
    assert counts == {name: parameters(name, vocab_size) for name in PRESETS}
    assert {row[0]: row[3] for row in rows} == {n: f"{c / 1e6:.1f}M" for n, c in counts.items()}


def test_a_terminal_shows_lines_between_families(nmt: Nmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    answer = nmt("models")
    assert answer.status == 0
    between = answer.stdout.split("├")[1:]
    firsts = [next(iter(family)) for family in FAMILIES.values()]
    assert [re.findall(r"\w+_\w+", part)[0] for part in between] == firsts[1:]


@pytest.mark.parametrize("preset", SMALLEST)
def test_a_preset_is_printed_as_a_recipe_that_makes_the_same_values(
    nmt: Nmt, tmp_path: Path, preset: str
) -> None:
    answer = nmt("models", preset, "--vocab-size", "1000", "--length", "3")
    assert (answer.status, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"# {preset}: {PRESETS[preset].summary}\n")
    wanted = resolved(preset)
    path = tmp_path / "recipe.toml"
    path.write_text(answer.stdout)
    assert resolve_recipe(preset, wanted.architecture, [("file", read_toml(path))]) == wanted
    costs = costs_in(answer.stdout)
    assert costs["parameters, joint vocabulary of 1,000"] == f"{parameters(preset, 1_000):,}"


@pytest.mark.parametrize("preset", PRESETS)
def test_the_values_of_every_preset_survive_as_a_recipe(tmp_path: Path, preset: str) -> None:
    wanted = resolved(preset)
    path = tmp_path / "recipe.toml"
    path.write_text(format_toml({"model": wanted.model, "training": wanted.training}))
    assert resolve_recipe(preset, wanted.architecture, [("file", read_toml(path))]) == wanted


def test_the_costs_of_a_preset_by_hand(nmt: Nmt) -> None:
    # 2 layers a side, widths of 128 and 512. Attention: 4 square matrices, and feed-forward 2 of
    # 128 x 512 with both biases; a norm has a gain and a bias.
    sizes = ("--vocab-size", "1000", "--length", "9", "--micro-batch-tokens", "30")
    answer = nmt("models", "transformer_tiny", *sizes)
    assert (answer.status, answer.stderr) == (0, "")
    square, wide, norm, logits = 128 * 128, 128 * 512, 2 * 128, 128 * 1_000
    feed_forward = 2 * wide + 512 + 128
    encoder = 2 * (4 * square + feed_forward + 2 * norm)
    decoder = 2 * (8 * square + feed_forward + 3 * norm)
    count = logits + encoder + decoder
    # A token of the source, and its share of the decoder's keys and values; scores and means are
    # over 9 positions.
    per_source = 2 * (4 * square + 2 * wide + 2 * 9 * 128) + 2 * 2 * square
    in_training = 2 * (6 * square + 2 * wide + 2 * (9 + 9) * 128) + logits
    in_decoding = 2 * (6 * square + 2 * wide + 2 * (5 + 9) * 128) + logits  # reads the fifth
    batch = batch_of([[4] * 8] * 3, [[4] * 8] * 3)  # 27 of 30 tokens
    activations = memory_needs(resolved("transformer_tiny"), (1_000, 1_000), batch)["micro-batch"]
    expected = {
        "parameters, joint vocabulary of 1,000": count,
        "parameters: encoder": encoder,
        "parameters: encoder: attention": 2 * 4 * square,
        "parameters: encoder: feed_forward": 2 * feed_forward,
        "parameters: encoder: norms": 2 * 2 * norm,
        "parameters: decoder": decoder,
        "multiply-adds a target token: training, forward pass, 9 tokens a side": per_source
        + in_training,
        "multiply-adds a target token: decoding, step 5 after 9 source tokens": in_decoding,
        "multiply-adds a target token: decoding, and its share of encoding": per_source
        + in_decoding,
        "memory in fp32: weights": megabytes(4 * count),
        "memory in fp32: gradient": megabytes(4 * count),
        "memory in fp32: Adam": megabytes(2 * 4 * count),
        "memory in fp32: micro-batch of 30 tokens a side": megabytes(activations),
        "memory in bf16: weights": megabytes(4 * count),
        "memory in bf16: rounded weights and gradient": megabytes(2 * 2 * count),
    }
    costs = costs_in(answer.stdout)
    assert {label: costs.get(label) for label in expected} == {
        label: f"{value:,}" if isinstance(value, int) else value
        for label, value in expected.items()
    }
    (tied,) = (label for label in costs if label.endswith(", tied"))
    assert "src_embedding" in tied
    assert "tgt_embedding" in tied
    assert "output_projection" in tied
    assert costs[tied] == f"{logits:,}"
    assert not any("Table 3" in label for label in costs)


def test_two_presets_are_compared(nmt: Nmt) -> None:
    sizes = ("--vocab-size", "1000", "--length", "3")
    names = "transformer_tiny", "transformer_base_layers2"
    answer = nmt("models", "--compare", *names, *sizes)
    assert (answer.status, answer.stderr) == (0, "")
    header, *rows = rows_in(answer.stdout)
    assert header == ["what", *names]
    assert rows[:4] == [
        ["d_model", "128", "512"],
        ["d_ff", "512", "2048"],
        ["num_heads", "4", "8"],
        ["batch_tokens", "4096", "25000"],
    ]
    costs = {label: cells for label, *cells in rows[4:]}
    total = "parameters, joint vocabulary of 1,000"
    assert costs[total] == [f"{parameters(name, 1_000):,}" for name in names]
    for beginning in ("parameters: encoder", "multiply-adds", "memory in fp32", "memory in bf16"):
        chosen = [cells for label, cells in costs.items() if label.startswith(beginning)]
        assert chosen
        assert all(a != b for a, b in chosen)
    # What Table 3 says of N = 2.
    paper = [cells for label, cells in costs.items() if label.startswith("Table 3")]
    assert paper == [["-", "C"], ["-", "36M"], ["-", "6.11"], ["-", "23.7"]]


@pytest.mark.parametrize(
    "words",
    [
        ("transformer_bigg",),
        ("--compare", "transformer_base", "transformer_bigg"),
        ("--compare", "transformer_bigg", "transformer_base"),
    ],
)
def test_an_unknown_preset_is_an_error_that_names_the_nearest(
    nmt: Nmt, words: tuple[str, ...]
) -> None:
    answer = nmt("models", *words)
    assert (answer.status, answer.stdout) == (2, "")
    assert answer.stderr == (
        "nmt: error: unknown model 'transformer_bigg'; did you mean 'transformer_big'?\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("transformer_tiny", "--compare", "a", "b"), "--compare takes both presets"),
        (
            ("transformer_tiny", "--length", "30", "--micro-batch-tokens", "20"),
            "--micro-batch-tokens 20 cannot hold a sentence of 30 tokens",
        ),
        (("--compare", "transformer_tiny"), "--compare"),
        (("transformer_tiny", "--length", "0"), "--length"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(
    nmt: Nmt, words: tuple[str, ...], message: str
) -> None:
    answer = nmt("models", *words)
    assert (answer.status, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert message in answer.stderr
