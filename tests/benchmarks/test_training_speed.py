"""`nmt train` beside a textbook Transformer and beside Marian: the same size and text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from benchmarks import corpora, training
from benchmarks.harness import is_installed, publish, rounds, setting, spread, table
from benchmarks.machine import best_rate, describe, has_bf16, product_rates
from benchmarks.marian import marian
from benchmarks.training import Contender, Job, flops_per_token, update_tokens

from nmt.data.folder import DataFolder

pytestmark = pytest.mark.benchmark

CORPORA: dict[str, Callable[[Path], Path]] = {
    "multi30k": corpora.multi30k,
    "europarl": corpora.europarl,
}
CONFIGURATIONS = [f"{size}-{corpus}" for corpus in CORPORA for size in ("small", "base")]
ROUNDS = rounds()
SECONDS = setting("SECONDS", 30.0)  # of one measurement, warm-up not counted
BATCH_TOKENS = 4096
WARMUP = 3  # updates


@pytest.fixture(scope="module")
def data_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Prepares a corpus when it is first asked for."""
    return cache(lambda corpus: CORPORA[corpus](tmp_path_factory.mktemp("data") / corpus))


@pytest.fixture(scope="module")
def rates() -> dict[str, float]:
    found = product_rates("cpu")
    listed = ", ".join(f"{rate / 1e9:,.0f} {name}" for name, rate in found.items())
    bf16 = "" if has_bf16() else "; bf16 is left out: this CPU has neither avx512_bf16 nor amx_bf16"
    publish(f"{describe()}. Matrix products in GFLOP/s, best: {listed}{bf16}.")
    return found


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_training_speed(
    configuration: str,
    data_of: Callable[[str], Path],
    rates: dict[str, float],
    tmp_path: Path,
) -> None:
    size, _, corpus = configuration.partition("-")
    job = Job(data_of(corpus), f"transformer_{size}", BATCH_TOKENS)
    textbook, ours, theirs = "textbook, fp32", "nmt, fp32", "Marian, fp32"
    systems: dict[str, Contender] = {
        textbook: training.textbook(job, "fp32"),
        ours: training.nmt(job, "fp32", tmp_path),
    }
    if has_bf16():
        systems["nmt, bf16"] = training.nmt(job, "bf16", tmp_path)
    if is_installed("pymarian"):
        systems[theirs] = marian(job, tmp_path / "marian")

    data = DataFolder.open(job.data)
    tokens = dict.fromkeys(systems, update_tokens(data, BATCH_TOKENS))
    found = training.timed(systems, tokens, warmup=WARMUP, seconds=SECONDS, rounds=ROUNDS)
    speeds = {name: [one.tokens_per_second for one in of] for name, of in found.items()}
    work = flops_per_token(job.preset, data)

    def row(name: str) -> dict[str, str]:
        speed = median(speeds[name])
        share = work * speed / best_rate(rates, name.rpartition(" ")[2])
        peak = median(one.peak_bytes for one in found[name])
        return {
            f"{job.preset}, {corpus}, {BATCH_TOKENS:,} target tokens an update": name,
            f"source + target tokens/s, median of {ROUNDS} (range)": spread(speeds[name]),
            "textbook": f"{speed / median(speeds[textbook]):.2f}x",
            "Marian": f"{speed / median(speeds[theirs]):.2f}x" if theirs in speeds else "",
            "of matrix products": f"{share:.0%}",
            "peak GiB": f"{peak / 2**30:.2f}",
        }

    note = "" if theirs in systems else "\n\nMarian is not installed: pip install pymarian"
    publish(f"{table(map(row, systems))}{note}")
    assert all(one.tokens_per_second > 0 for of in found.values() for one in of)
    assert all(one.peak_bytes > 0 for of in found.values() for one in of)
