"""`nmt train` beside Marian: the same size and text."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from benchmarks import corpora, training
from benchmarks.harness import is_installed, publish, rounds, setting, spread, table
from benchmarks.machine import best_rate, describe, has_bf16, product_rates
from benchmarks.training import Contender, Job, flops_per_token, update_tokens

from nmt.data.folder import DataFolder

pytestmark = pytest.mark.benchmark

SECONDS = setting("SECONDS", 30.0)  # of one measurement, warm-up not counted
BATCH_TOKENS = 4096


@pytest.mark.parametrize("corpus", ["multi30k", "europarl"])
def test_training_speed(corpus: str, tmp_path: Path) -> None:
    data, rates = getattr(corpora, corpus)(tmp_path / "data"), product_rates("cpu")
    listed = ", ".join(f"{rate / 1e9:,.0f} {name}" for name, rate in rates.items())
    publish(f"{describe()}. Matrix products in GFLOP/s, best: {listed}.")
    for size in ("small", "base"):
        job = Job(data, f"transformer_{size}", BATCH_TOKENS)
        theirs, systems = "Marian, fp32", dict[str, Contender]()
        for precision in ("fp32", *(["bf16"] if has_bf16() else [])):
            systems[f"nmt, {precision}"] = training.nmt(job, precision, tmp_path)
        if is_installed("pymarian"):
            systems[theirs] = training.marian(job, tmp_path / "marian")
        tokens = dict.fromkeys(systems, update_tokens(DataFolder.open(data), BATCH_TOKENS))
        found = training.timed(systems, tokens, warmup=3, seconds=SECONDS, rounds=rounds())
        speeds = {name: [one.tokens_per_second for one in of] for name, of in found.items()}
        rows = []
        for name, of in speeds.items():
            share = flops_per_token(job) * median(of) / best_rate(rates, name.rpartition(" ")[2])
            peak = median(one.peak_bytes for one in found[name])
            rows.append(
                {
                    f"{job.preset}, {corpus}, {BATCH_TOKENS:,} target tokens an update": name,
                    "source + target tokens/s, median (range)": spread(of),
                    "Marian": f"{median(of) / median(speeds[theirs]):.2f}x"
                    if theirs in speeds
                    else "",
                    "of matrix products": f"{share:.0%}",
                    "peak GiB": f"{peak / 2**30:.2f}",
                }
            )
        publish(table(rows))
        assert min(map(min, speeds.values())) > 0
