"""Trainings that share a machine: two side by side, and what it costs one that has it for itself.

Threads that wait for others sleep (`nmt.cpu`). Two trainings side by side should take at most 10 %
longer than one after the other, and one alone at most 2 % longer than with threads that spin, as
libgomp's do by default.

    NMT_BENCH_ROUNDS    measurements of each kind, 5 by default
    NMT_BENCH_OUT       a file that the table is added to
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import contenders
from benchmarks.contenders import Job, nmt_command
from benchmarks.corpora import toy
from benchmarks.machine import CORES, describe
from benchmarks.report import publish, spread, table

pytestmark = pytest.mark.benchmark

ROUNDS = int(os.environ.get("NMT_BENCH_ROUNDS", "5"))
SPINNING = {"GOMP_SPINCOUNT": "300000", "KMP_BLOCKTIME": "200"}  # the libraries' own defaults


@pytest.mark.parametrize(
    ("preset", "batch_tokens", "warmup", "updates"),
    [("transformer_tiny", 2_000, 20, 100), ("transformer_small", 4_096, 2, 12)],
)
def test_sharing(preset: str, batch_tokens: int, warmup: int, updates: int, tmp_path: Path) -> None:
    job = Job(toy(tmp_path / "data"), preset, batch_tokens)
    rates: dict[str, list[float]] = {"alone": [], "alone, spinning": [], "two side by side": []}
    for number in range(ROUNDS):  # interleaved, so that a slow minute hits all alike
        for kind, found in rates.items():
            runs = [tmp_path / f"run-{number}-{kind}-{one}" for one in range(1 + (kind[0] == "t"))]
            processes = [
                subprocess.Popen(
                    [sys.executable, "-m", "nmt", *nmt_command(job, "fp32", run, warmup, updates)],
                    env=contenders.environment() | (SPINNING if "spinning" in kind else {}),
                )
                for run in runs
            ]
            assert [process.wait() for process in processes] == [0] * len(processes)
            found.append(sum(contenders.rate_after_warmup(run, "update") for run in runs))
    alone, spinning, together = (statistics.median(found) for found in rates.values())
    rows = [[kind, spread(found, ".2f")] for kind, found in rates.items()]
    header = [f"{preset}, {CORES} cores", f"updates/s in all, median of {ROUNDS} (range)"]
    publish(
        f"{describe()}\n\n{table(header, rows)}\n\n"
        f"Side by side takes {alone / together:.2f}x of the time of one after the other; sleeping "
        f"takes {spinning / alone:.2f}x of the time of spinning."
    )
    assert alone / together < 1.1
