"""Trainings that share a machine: two side by side, and the cost for one on an idle machine.

Threads that wait for others spin for a short time and then sleep (`nmt.cpu`). Each of two trainings
side by side should take at most three times as long as alone, and one alone at most 2 % longer than
with threads that spin as libgomp's do by default.
"""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

import pytest
from benchmarks.corpora import toy
from benchmarks.harness import NMT, environment, in_turn, publish, rounds, spread, table
from benchmarks.machine import CORES, describe
from benchmarks.training import Job, nmt_command, rate_after_warmup

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
                [*NMT, *nmt_command(job, "fp32", run, warmup, updates)],
                env=environment() | variables,
            )
            for run in runs
        ]
        assert [process.wait() for process in started] == [0] * count
        return sum(rate_after_warmup(run, "update") for run in runs)

    kinds = {
        "alone": partial(updates_per_second, 1, {}),
        "alone, spinning": partial(updates_per_second, 1, SPINNING),
        "two side by side": partial(updates_per_second, 2, {}),
    }
    rates = in_turn(kinds, ROUNDS)
    alone, spinning, together = map(median, rates.values())
    rows = (
        {
            f"{preset}, {CORES} cores": kind,
            f"updates/s in all, median of {ROUNDS} (range)": spread(found, ".2f"),
        }
        for kind, found in rates.items()
    )
    publish(
        f"{describe()}\n\n{table(rows)}\n\n"
        f"Side by side each takes {2 * alone / together:.2f}x of its time alone; sleeping "
        f"takes {spinning / alone:.2f}x of the time of spinning."
    )
    assert 2 * alone / together < 3
