"""Trainings that share a machine: two side by side, and the cost for one on an idle machine.

Threads that wait for others sleep (`nmt.cpu`). Two trainings side by side should take at most 10 %
longer than one after the other, and one alone at most 2 % longer than with threads that spin, as
libgomp's do by default.

    NMT_BENCH_ROUNDS    measurements of each kind, 5 by default
    NMT_BENCH_OUT       a file that the table is added to
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import pytest
from benchmarks import contenders
from benchmarks.contenders import Job, nmt_command
from benchmarks.corpora import toy
from benchmarks.machine import CORES, describe
from benchmarks.report import in_turn, publish, rounds, spread, table

pytestmark = pytest.mark.benchmark

ROUNDS = rounds()
SPINNING = {"GOMP_SPINCOUNT": "300000", "KMP_BLOCKTIME": "200"}  # the libraries' own defaults


@pytest.mark.parametrize(
    ("preset", "batch_tokens", "warmup", "updates"),
    [("transformer_tiny", 2_000, 20, 100), ("transformer_small", 4_096, 2, 12)],
)
def test_sharing(preset: str, batch_tokens: int, warmup: int, updates: int, tmp_path: Path) -> None:
    job = Job(toy(tmp_path / "data"), preset, batch_tokens)

    def updates_per_second(count: int, variables: dict[str, str]) -> float:
        folder = Path(mkdtemp(dir=tmp_path))
        runs = [folder / str(number) for number in range(count)]
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "nmt", *nmt_command(job, "fp32", run, warmup, updates)],
                env=contenders.environment() | variables,
            )
            for run in runs
        ]
        assert [process.wait() for process in started] == [0] * count
        return sum(contenders.rate_after_warmup(run, "update") for run in runs)

    kinds = {
        "alone": partial(updates_per_second, 1, {}),
        "alone, spinning": partial(updates_per_second, 1, SPINNING),
        "two side by side": partial(updates_per_second, 2, {}),
    }
    rates = in_turn(kinds, ROUNDS)
    alone, spinning, together = (statistics.median(found) for found in rates.values())
    rows = [[kind, spread(found, ".2f")] for kind, found in rates.items()]
    header = [f"{preset}, {CORES} cores", f"updates/s in all, median of {ROUNDS} (range)"]
    publish(
        f"{describe()}\n\n{table(header, rows)}\n\n"
        f"Side by side takes {alone / together:.2f}x of the time of one after the other; sleeping "
        f"takes {spinning / alone:.2f}x of the time of spinning."
    )
    assert alone / together < 1.1
