"""How much faster several processes train than one: gloo on CPUs, NCCL on GPUs.

Every process of a CPU has one thread. An update is the same set of pairs on any number of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

import pytest
import torch
from benchmarks.corpora import made_up
from benchmarks.harness import in_turn, publish, rounds, run, spread, table
from benchmarks.machine import CORES, describe
from benchmarks.training import Job, nmt_command, rate_after_warmup
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
        out = Path(mkdtemp(dir=tmp_path)) / "run"
        arguments = nmt_command(job, precision, out, warmup, updates, "threads=1")
        run(launched(*arguments, ranks=ranks))
        return rate_after_warmup(out, "update")

    speeds = in_turn({str(n): partial(updates_per_second, n) for n in numbers}, ROUNDS)
    rows = []
    for ranks, found in speeds.items():
        gain = median(found) / median(speeds["1"])
        rows.append(
            {
                f"processes, {preset}, {precision} on {device}": ranks,
                f"updates/s, median of {ROUNDS} (range)": spread(found, ".3f"),
                "of one": f"{gain:.2f}x",
                "efficiency": f"{gain / int(ranks):.0%}",
            }
        )
    publish(f"{describe()}\n\n{table(rows)}")
    assert all(speed > 0 for found in speeds.values() for speed in found)
