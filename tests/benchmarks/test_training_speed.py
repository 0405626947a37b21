"""`nmt train` beside a textbook Transformer of the same size on the same text and cores."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.textbook import Textbook, tokens_per_second

from nmt.data.folder import DataFolder

pytestmark = pytest.mark.benchmark

ROUNDS = 5
BATCH_TOKENS = 4096
WARMUP, UPDATES = 4, 16


def nmt(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "nmt", *arguments, "--quiet"], check=True)


def measure_nmt(data: Path, run: Path, precision: str) -> float:
    """Train by the command itself and return the tokens a second that it reports."""
    nmt(
        *("train", str(data), "--out", str(run), "--model", "transformer_small"),
        *("--precision", precision, "--max-updates", str(WARMUP + UPDATES), "--device", "cpu"),
        *("--set", f"log_every={WARMUP}", "--set", f"batch_tokens={BATCH_TOKENS}"),
    )
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    speeds = [float(record["tokens_per_second"]) for record in records if record["kind"] == "train"]
    return statistics.mean(speeds[1:])  # the first window is warm-up


def measure_textbook(data: DataFolder) -> float:
    torch.manual_seed(1)
    model = Textbook(len(data.src_vocabulary), d_model=256, d_ff=1024, heads=4, layers=3)
    pairs = range(0, len(data.train), 4)
    return tokens_per_second(
        model,
        [data.train.src(i).tolist() for i in pairs],
        [data.train.tgt(i).tolist() for i in pairs],
        batch_tokens=BATCH_TOKENS,
        warmup=WARMUP,
        updates=UPDATES,
    )


def test_training_speed_on_multi30k(tmp_path: Path) -> None:
    text = Path(os.environ.get("NMT_DATA", "")) / "multi30k"
    if not text.is_dir():
        pytest.skip("needs NMT_DATA, a folder that holds multi30k/")
    data = tmp_path / "data"
    nmt(
        *("prepare", str(data), "--src", "en", "--tgt", "de", "--vocab-size", "8000"),
        *("--train", str(text / "train"), "--valid", str(text / "val")),
    )
    folder = DataFolder.open(data)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    figures: dict[str, list[float]] = {"textbook fp32": [], "nmt fp32": [], "nmt bf16": []}
    for number in range(ROUNDS):  # interleaved, so that a slow minute hits all alike
        figures["textbook fp32"].append(measure_textbook(folder))
        for precision in ("fp32", "bf16"):
            run = tmp_path / f"run-{precision}-{number}"
            figures[f"nmt {precision}"].append(measure_nmt(data, run, precision))
    baseline = statistics.median(figures["textbook fp32"])
    print(
        f"\ntransformer_small, Multi30k en-de, {BATCH_TOKENS} target tokens an update, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}; "
        f"source + target tokens/s, median of {ROUNDS} (lowest to highest)"
    )
    for name, values in figures.items():
        median = statistics.median(values)
        print(
            f"  {name:14} {median:8,.0f} ({min(values):,.0f} to {max(values):,.0f})  "
            f"{median / baseline:.2f}x"
        )
    assert all(value > 0 for values in figures.values() for value in values)
