"""The memory of `nmt translate` does not grow with the number of lines.

A tiny model with random weights translates made-up short lines by greedy search, once a tenth of
them and once all, from a file to a file.

NMT_BENCH_LINES   how many lines, 1,000,000 by default
NMT_BENCH_OUT     a file that the table is added to
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
import torch
from benchmarks import processes
from benchmarks.report import publish, table

from nmt.models.model_file import ModelCard, write_model

pytestmark = pytest.mark.benchmark

LINES = int(os.environ.get("NMT_BENCH_LINES", "1000000"))
WORDS = ["the", "a", "cat", "dog", "bird", "sees", "hears", "finds", "small", "red", "old", "house"]


def test_translation_memory(card: ModelCard, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, text = tmp_path / "model", tmp_path / "text"
    write_model(model, card, dict(card.build().named_parameters()))
    random = Random(1)
    costs: dict[int, processes.Finished] = {}
    for count in (LINES // 10, LINES):
        with text.open("w") as file:
            file.writelines(f"{' '.join(random.choices(WORDS, k=3))}\n" for _ in range(count))
        options = ["--beam-size", "1", "--max-tokens", "2", "--quiet"]
        out = tmp_path / f"out.{count}"
        costs[count] = processes.nmt(
            "translate", str(model), "--input", str(text), "--output", str(out), *options
        )
        with out.open("rb") as file:
            assert sum(1 for _ in file) == count
    rows = [
        [f"{count:,} lines", f"{cost.seconds:.0f}", f"{cost.peak_bytes / 2**20:.0f}"]
        for count, cost in costs.items()
    ]
    publish(table(["tiny model, greedy", "seconds", "peak MiB of all processes"], rows))
    few, many = costs.values()
    assert many.peak_bytes < 1.1 * few.peak_bytes
