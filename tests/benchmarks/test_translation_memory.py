"""The memory of `nmt translate` does not grow with the number of lines.

A tiny model with random weights translates made-up short lines by greedy search, once a tenth of
them and once all, from a file to a file.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch
from benchmarks.harness import Finished, nmt, publish, setting, table

from nmt.models.model_file import ModelCard, write_model

pytestmark = pytest.mark.benchmark

LINES = setting("LINES", 1_000_000)
WORDS = ["the", "a", "cat", "dog", "bird", "sees", "hears", "finds", "small", "red", "old", "house"]


def test_translation_memory(card: ModelCard, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, text = tmp_path / "model", tmp_path / "text"
    write_model(model, card, dict(card.build().named_parameters()))
    random = Random(1)
    costs: dict[int, Finished] = {}
    for count in (LINES // 10, LINES):
        with text.open("w") as file:
            file.writelines(f"{' '.join(random.choices(WORDS, k=3))}\n" for _ in range(count))
        out = tmp_path / f"out.{count}"
        costs[count] = nmt(
            *("translate", model, "--input", text, "--output", out),
            *("--beam-size", "1", "--max-tokens", "2", "--quiet"),
            with_children=True,
        )
        with out.open("rb") as file:
            assert sum(1 for _ in file) == count
    rows = (
        {
            "tiny model, greedy": f"{count:,} lines",
            "seconds": f"{cost.seconds:.0f}",
            "peak MiB of all processes": f"{cost.peak_bytes / 2**20:.0f}",
        }
        for count, cost in costs.items()
    )
    publish(table(rows))
    few, many = costs.values()
    assert many.peak_bytes < 1.1 * few.peak_bytes
