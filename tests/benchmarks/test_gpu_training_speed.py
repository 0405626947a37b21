"""`nmt train` on one GPU, compiled or not, beside the textbook Transformer.

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
from functools import partial
from pathlib import Path

import pytest
import torch
from benchmarks import contenders
from benchmarks.contenders import Contender, Job
from benchmarks.corpora import made_up
from benchmarks.machine import best_rate, describe, product_rates
from benchmarks.report import in_turn, publish, rounds, spread, table
from benchmarks.work import config_of, flops_per_token, update_tokens

from nmt.data.folder import DataFolder

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"
    ),
]

PRESETS = ["transformer_base", "transformer_big"]
CHOSEN = os.environ.get("NMT_BENCH_CONFIGS", ",".join(PRESETS)).split(",")
ROUNDS = rounds()
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


def measure(train: Contender) -> tuple[float, int]:
    """Return the tokens a second of a training, and its peak of GPU memory."""
    with gpu_peak() as peak:
        speed = train(WARMUP, UPDATES).tokens_per_second
    return speed, peak[0]


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
    runs = tmp_path / "runs"
    runs.mkdir()
    systems: dict[str, Contender] = {
        "textbook, fp32": contenders.textbook(job, "fp32"),
        "textbook under autocast, bf16": contenders.textbook(job, "bf16"),
        "nmt, bf16": contenders.nmt(job, "bf16", runs),
        "nmt compiled, bf16": contenders.nmt(job, "bf16", runs, "compile=true"),
    }
    cold, warm = (seconds_of_a_start(job, tmp_path / name) for name in ("cold", "warm"))
    found = in_turn({name: partial(measure, train) for name, train in systems.items()}, ROUNDS)
    speeds = {name: [speed for speed, _ in pairs] for name, pairs in found.items()}
    peaks = {name: max(peak for _, peak in pairs) for name, pairs in found.items()}

    tokens = update_tokens(folder, BATCH_TOKENS)
    per_token = flops_per_token(config_of(preset), folder)
    medians = {name: statistics.median(found) for name, found in speeds.items()}
    rows = []
    for name, own in speeds.items():
        share = per_token * medians[name] / best_rate(rates, name.rpartition(" ")[2])
        rows.append(
            [
                name,
                spread([1000 * tokens / speed for speed in own], ",.1f"),
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
    assert all(speed > 0 for own in speeds.values() for speed in own)
    assert all(peak > 0 for peak in peaks.values())
