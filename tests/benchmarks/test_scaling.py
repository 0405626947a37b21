"""How much faster several processes train than one: gloo on CPUs, NCCL on GPUs.

Every process of a CPU has one thread. An update is the same set of pairs on any number of them.

    NMT_BENCH_ROUNDS    measurements of each number of processes, 5 by default
    NMT_BENCH_DATA      a data folder to train on instead of made-up text
    NMT_BENCH_OUT       a file that the table is added to
"""

from __future__ import annotations

import statistics
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch
from benchmarks import contenders, processes
from benchmarks.contenders import Job, nmt_command
from benchmarks.corpora import made_up
from benchmarks.machine import CORES, describe
from benchmarks.report import in_turn, publish, rounds, spread, table
from toy_training import nmt_command as launched

pytestmark = pytest.mark.benchmark

ROUNDS = rounds()
RANKS = (1, 2, 4, 8)
# What is trained, the target tokens of an update, and the updates of warm-up and measurement.
SMALL = ("transformer_small", 4096, 3, 8)
BASE = ("transformer_base", 25_000, 20, 100)


@pytest.mark.parametrize(
    ("device", "units", "work"),
    [("cpu", CORES, SMALL), ("cuda", torch.cuda.device_count(), BASE)],
    ids=["gloo", "nccl"],
)
def test_scaling(device: str, units: int, work: tuple[str, int, int, int], tmp_path: Path) -> None:
    numbers = [ranks for ranks in RANKS if ranks <= units]
    if len(numbers) < 2:
        pytest.skip(f"needs two {'cores' if device == 'cpu' else 'GPUs'}; this machine has {units}")
    preset, batch_tokens, warmup, updates = work
    job = Job(made_up(tmp_path / "data", pairs=100_000), preset, batch_tokens, device)
    precision = "fp32" if device == "cpu" else "bf16"

    def updates_per_second(ranks: int) -> float:
        run = Path(mkdtemp(dir=tmp_path)) / "run"
        arguments = nmt_command(job, precision, run, warmup, updates, "threads=1")
        processes.run(launched(*arguments, ranks=ranks), contenders.environment())
        return contenders.rate_after_warmup(run, "update")

    speeds = in_turn({str(n): partial(updates_per_second, n) for n in numbers}, ROUNDS)
    alone = statistics.median(speeds["1"])
    rows = [
        [
            ranks,
            spread(found, ".3f"),
            f"{statistics.median(found) / alone:.2f}x",
            f"{statistics.median(found) / alone / int(ranks):.0%}",
        ]
        for ranks, found in speeds.items()
    ]
    header = [
        f"processes, {preset}, {precision} on {device}",
        f"updates/s, median of {ROUNDS} (range)",
        "of one",
        "efficiency",
    ]
    publish(f"{describe()}\n\n{table(header, rows)}")
    assert all(speed > 0 for found in speeds.values() for speed in found)
