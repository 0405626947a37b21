"""`nmt train` beside a textbook Transformer and beside Marian, of the same size, on the same text.

NMT_BENCH_CONFIGS   which, by comma: small-multi30k, base-multi30k, small-europarl,
                    base-europarl; all by default
NMT_BENCH_ROUNDS    measurements of each system, 5 by default
NMT_BENCH_SECONDS   what one measurement takes at least, warm-up not counted, 30 by default
NMT_BENCH_MARIAN    a Python that can import pymarian, if this one cannot
NMT_BENCH_OUT       a file that the tables are added to
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
from benchmarks import contenders, corpora, marian
from benchmarks.contenders import Contender, Job
from benchmarks.machine import best_rate, describe, has_bf16, product_rates
from benchmarks.peers import find_python
from benchmarks.report import in_turn, publish, rounds, spread, table
from benchmarks.work import config_of, flops_per_token, update_tokens

from nmt.data.folder import DataFolder

pytestmark = pytest.mark.benchmark

CORPORA: dict[str, Callable[[Path], Path]] = {
    "multi30k": corpora.multi30k,
    "europarl": corpora.europarl,
}
CONFIGURATIONS = [f"{size}-{corpus}" for corpus in CORPORA for size in ("small", "base")]
CHOSEN = os.environ.get("NMT_BENCH_CONFIGS", ",".join(CONFIGURATIONS)).split(",")
ROUNDS = rounds()
SECONDS = float(os.environ.get("NMT_BENCH_SECONDS", "30"))
BATCH_TOKENS = 4096
WARMUP = 3  # updates
FEWEST_UPDATES = 5


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
    if configuration not in CHOSEN:
        pytest.skip("not among NMT_BENCH_CONFIGS")
    size, _, corpus = configuration.partition("-")
    job = Job(data_of(corpus), f"transformer_{size}", BATCH_TOKENS)
    data, config = DataFolder.open(job.data), config_of(job.preset)
    systems: dict[str, Contender] = {
        "textbook, fp32": contenders.textbook(job, "fp32"),
        "nmt, fp32": contenders.nmt(job, "fp32", tmp_path),
    }
    if has_bf16():
        systems["nmt, bf16"] = contenders.nmt(job, "bf16", tmp_path)
    python = find_python("NMT_BENCH_MARIAN", "pymarian")
    if python:
        folder = tmp_path / "marian"
        folder.mkdir()
        systems["Marian, fp32"] = marian.marian(job, config, python, folder)

    tokens = update_tokens(data, BATCH_TOKENS)
    updates = {  # a short training tells how fast each one is
        name: max(FEWEST_UPDATES, round(SECONDS * train(1, 2).tokens_per_second / tokens))
        for name, train in systems.items()
    }
    figures = in_turn(
        {name: partial(train, WARMUP, updates[name]) for name, train in systems.items()}, ROUNDS
    )
    per_token = flops_per_token(config, data)
    medians = {
        name: statistics.median(one.tokens_per_second for one in found)
        for name, found in figures.items()
    }
    peer = medians.get("Marian, fp32")
    rows = []
    for name, found in figures.items():
        share = per_token * medians[name] / best_rate(rates, name.rpartition(" ")[2])
        rows.append(
            [
                name,
                spread([one.tokens_per_second for one in found]),
                f"{medians[name] / medians['textbook, fp32']:.2f}x",
                f"{medians[name] / peer:.2f}x" if peer else "",
                f"{share:.0%}",
                f"{statistics.median(one.peak_bytes for one in found) / 2**30:.2f}",
            ]
        )
    if not python:
        rows.append(["Marian", "not installed: pip install pymarian", "", "", "", ""])
    header = [
        f"{job.preset}, {corpus}, {BATCH_TOKENS:,} target tokens an update",
        f"source + target tokens/s, median of {ROUNDS} (range)",
        "textbook",
        "Marian",
        "of matrix products",
        "peak GiB",
    ]
    publish(table(header, rows))
    assert all(one.tokens_per_second > 0 for found in figures.values() for one in found)
    assert all(one.peak_bytes > 0 for found in figures.values() for one in found)
