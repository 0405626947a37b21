"""`nmt train` on one GPU, as it is and compiled, beside the textbook Transformer.

Updates are the paper's, of 25,000 source and 25,000 target tokens, with a vocabulary of 32,000, on
made-up text of WMT's lengths.

    NMT_BENCH_CONFIGS   which, by comma: transformer_base, transformer_big; both by default
    NMT_BENCH_ROUNDS    measurements of each system, 5 by default
    NMT_BENCH_DATA      a data folder to train on instead
    NMT_BENCH_OUT       a file that the tables are added to
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from benchmarks import contenders
from benchmarks.contenders import Contender, Job
from benchmarks.corpora import made_up
from benchmarks.machine import best_rate, describe, product_rates
from benchmarks.model_flops import flops_per_token
from benchmarks.report import publish, spread, table

from nmt.config import resolve_recipe
from nmt.data.folder import DataFolder
from nmt.model_config import TransformerConfig
from nmt.models.presets import preset_values

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"
    ),
]

PRESETS = ["transformer_base", "transformer_big"]
CHOSEN = os.environ.get("NMT_BENCH_CONFIGS", ",".join(PRESETS)).split(",")
ROUNDS = int(os.environ.get("NMT_BENCH_ROUNDS", "5"))
BATCH_TOKENS = 25_000
WARMUP, UPDATES = 20, 100
TEXTBOOK_PAIRS = 150_000  # enough for these updates


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up(tmp_path_factory.mktemp("data") / "data")


@pytest.fixture(scope="module")
def rates() -> dict[str, float]:
    found = product_rates("cuda")
    listed = ", ".join(f"{rate / 1e12:,.0f} {name}" for name, rate in found.items())
    publish(f"{describe()}. Matrix products in TFLOP/s, best: {listed}.")
    return found


@contextmanager
def gpu_peak() -> Iterator[list[int]]:
    """Watch the GPU's memory; the list's one number is the most bytes that were added to it."""
    before = torch.cuda.mem_get_info()[0]
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak[0] = max(peak[0], before - torch.cuda.mem_get_info()[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def seconds_of_a_start(job: Job, run: Path) -> float:
    """Return how long `nmt train` with a compiled model takes for one update, start included."""
    command = contenders.nmt_command(job, "bf16", run, 1, 0, "compile=true")
    started = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "nmt", *command], check=True, env=contenders.environment()
    )
    return time.monotonic() - started


@pytest.mark.parametrize("preset", PRESETS)
def test_gpu_training_speed(
    preset: str,
    data: Path,
    rates: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if preset not in CHOSEN:
        pytest.skip("not among NMT_BENCH_CONFIGS")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    job = Job(data, preset, BATCH_TOKENS, "cuda", TEXTBOOK_PAIRS)
    folder = DataFolder.open(data)
    config = resolve_recipe("", "transformer", [("", preset_values(preset))]).model
    assert isinstance(config, TransformerConfig)
    runs = tmp_path / "runs"
    runs.mkdir()
    systems: dict[str, Contender] = {
        "textbook, fp32": contenders.textbook(job, "fp32"),
        "textbook under autocast, bf16": contenders.textbook(job, "bf16"),
        "nmt, bf16": contenders.nmt(job, "bf16", runs),
        "nmt compiled, bf16": contenders.nmt(job, "bf16", runs, "compile=true"),
    }
    cold, warm = (seconds_of_a_start(job, tmp_path / name) for name in ("cold", "warm"))
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    peaks: dict[str, int] = dict.fromkeys(systems, 0)
    for _ in range(ROUNDS):  # interleaved, so that a slow minute hits all alike
        for name, train in systems.items():
            with gpu_peak() as peak:
                speeds[name].append(train(WARMUP, UPDATES).tokens_per_second)
            peaks[name] = max(peaks[name], *peak)

    counts = folder.info.train
    sides = [side.tokens + counts.pairs for side in (counts.src, counts.tgt)]
    update_tokens = BATCH_TOKENS * sum(sides) / max(sides)  # of both sides
    per_token = flops_per_token(config, len(folder.tgt_vocabulary), folder.train)
    medians = {name: statistics.median(found) for name, found in speeds.items()}
    rows = []
    for name, found in speeds.items():
        share = per_token * medians[name] / best_rate(rates, name.rpartition(" ")[2])
        rows.append(
            [
                name,
                spread([1000 * update_tokens / speed for speed in found], ",.1f"),
                f"{medians[name]:,.0f}",
                f"{medians[name] / medians['textbook under autocast, bf16']:.2f}x",
                f"{share:.0%}",
                f"{peaks[name] / 2**30:.1f}",
            ]
        )
    header = [
        f"{preset}, {BATCH_TOKENS:,} + {BATCH_TOKENS:,} tokens an update",
        f"ms an update, median of {ROUNDS} (range)",
        "source + target tokens/s",
        "textbook, bf16",
        "of matrix products",
        "peak GiB of GPU memory",
    ]
    publish(
        f"{table(header, rows)}\n\nA start with one compiled update took {cold:.0f} s, and "
        f"{warm:.0f} s where torch had kept what it compiled."
    )
    assert all(speed > 0 for found in speeds.values() for speed in found)
    assert all(peak > 0 for peak in peaks.values())
