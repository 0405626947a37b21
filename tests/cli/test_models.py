"""`nmt models`: all presets, one as a recipe with its costs, and two side by side."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from command_line import Nmt
from pairs import batch_of

from nmt.config.fields import Value
from nmt.config.presets import CHOICES, PRESETS, body_parameters, preset_values
from nmt.config.recipes import Recipe, read_toml, resolve_recipe
from nmt.models.registry import ARCHITECTURES, count_parameters
from nmt.system.files import megabytes
from nmt.training.memory import memory_needs


def resolved(preset: str, **values: Value) -> Recipe:
    changed = preset_values(preset) | values
    return resolve_recipe(preset, PRESETS[preset].architecture, [("preset", changed)])


def parameters(preset: str, vocab_size: int) -> int:
    recipe = resolved(preset)
    return count_parameters(recipe.architecture, recipe.model, vocab_size, vocab_size)


SMALLEST = [
    min(
        (name for name, preset in PRESETS.items() if preset.architecture == architecture),
        key=lambda name: parameters(name, 1_000),
    )
    for architecture in ARCHITECTURES
]


def costs_in(recipe: str) -> dict[str, str]:
    """Read the comments above a printed recipe, but for the first, which is the summary."""
    head = recipe[: recipe.index("\n\n")].splitlines()[1:]
    rows = (line.removeprefix("# ").rsplit("  ", 1) for line in head)
    return {label.strip(): value.strip() for label, value in rows}


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
    assert shown[5] == ["transformer_base", "6+6", "512", "63.0M"]


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
    recipe = resolved("transformer_tiny", precision="fp32")
    activations = memory_needs(recipe, (1_000, 1_000), batch)["micro-batch"]
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
        "memory in bf16: rounded weights": megabytes(2 * count),
    }
    costs = costs_in(answer.stdout)
    assert {label: costs.get(label) for label in expected} == {
        label: f"{value:,}" if isinstance(value, int) else value
        for label, value in expected.items()
    }
    (tied,) = (label for label in costs if label.endswith(", tied"))
    assert all(name in tied for name in ("src_embedding", "tgt_embedding", "output_projection"))
    assert costs[tied] == f"{logits:,}"
    assert not any("Table 3" in label for label in costs)


def test_two_presets_are_compared(nmt: Nmt) -> None:
    sizes = ("--vocab-size", "1000", "--length", "3")
    names = "transformer_tiny", "transformer_base_layers2"
    answer = nmt("models", "--compare", *names, *sizes)
    assert (answer.status, answer.stderr) == (0, "")
    header, *rows = rows_in(answer.stdout)
    assert header == ["what", *names]
    costs = {label: cells for label, *cells in rows}
    assert costs["d_model"] == ["128", "512"]
    total = "parameters, joint vocabulary of 1,000"
    assert costs[total] == [f"{parameters(name, 1_000):,}" for name in names]
    for beginning in ("parameters: encoder", "multiply-adds", "memory in fp32", "memory in bf16"):
        chosen = [cells for label, cells in costs.items() if label.startswith(beginning)]
        assert chosen
        assert all(a != b for a, b in chosen)
    # What Table 3 says of N = 2.
    paper = [cells for label, cells in costs.items() if label.startswith("Table 3")]
    assert paper == [["-", "C"], ["-", "36M"], ["-", "6.11"], ["-", "23.7"]]
