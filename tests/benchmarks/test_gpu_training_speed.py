"""`nmt train` on one GPU, compiled or not, beside the textbook Transformer.

Updates are the paper's, of 25,000 source and 25,000 target tokens, with a vocabulary of 32,000, on
made-up text of WMT's lengths.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median

import pytest
import torch
from benchmarks import harness, training
from benchmarks.corpora import made_up
from benchmarks.harness import chosen, highest, in_turn, publish, rounds, spread, table
from benchmarks.machine import best_rate, describe, product_rates
from benchmarks.training import Contender, Job, flops_per_token, nmt_command, update_tokens

from nmt.data.folder import DataFolder

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"
    ),
]

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


def measure(train: Contender) -> tuple[float, int]:
    """Return the tokens a second of a training, and its peak of GPU memory."""
    before = torch.cuda.mem_get_info()[0]
    with highest(lambda: before - torch.cuda.mem_get_info()[0], every=0.05) as peak:
        speed = train(WARMUP, UPDATES).tokens_per_second
    return speed, peak[0]


@pytest.mark.parametrize("preset", chosen("transformer_base", "transformer_big"))
def test_gpu_training_speed(
    preset: str,
    data: Path,
    rates: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    job = Job(data, preset, BATCH_TOKENS, "cuda", TEXTBOOK_PAIRS)
    cold, warm = (  # seconds of a training of one update, start included
        harness.nmt(*nmt_command(job, "bf16", tmp_path / name, 1, 0, "compile=true")).seconds
        for name in ("cold", "warm")
    )
    textbook = "textbook under autocast, bf16"
    systems: dict[str, Contender] = {
        "textbook, fp32": training.textbook(job, "fp32"),
        textbook: training.textbook(job, "bf16"),
        "nmt, bf16": training.nmt(job, "bf16", tmp_path),
        "nmt compiled, bf16": training.nmt(job, "bf16", tmp_path, "compile=true"),
    }
    found = in_turn({name: partial(measure, train) for name, train in systems.items()}, ROUNDS)
    speeds = {name: [speed for speed, _ in of] for name, of in found.items()}
    peaks = {name: max(peak for _, peak in of) for name, of in found.items()}
    folder = DataFolder.open(data)
    tokens, work = update_tokens(folder, BATCH_TOKENS), flops_per_token(preset, folder)

    def row(name: str) -> dict[str, str]:
        speed = median(speeds[name])
        share = work * speed / best_rate(rates, name.rpartition(" ")[2])
        return {
            f"{preset}, {BATCH_TOKENS:,} + {BATCH_TOKENS:,} tokens an update": name,
            f"ms an update, median of {ROUNDS} (range)": spread(
                [1000 * tokens / one for one in speeds[name]], ",.1f"
            ),
            "source + target tokens/s": f"{speed:,.0f}",
            "textbook, bf16": f"{speed / median(speeds[textbook]):.2f}x",
            "of matrix products": f"{share:.0%}",
            "peak GiB of GPU memory": f"{peaks[name] / 2**30:.1f}",
        }

    publish(
        f"{table(map(row, systems))}\n\nA start with one compiled update took {cold:.0f} s, and "
        f"{warm:.0f} s where torch had kept what it compiled."
    )
    assert all(speed > 0 for of in speeds.values() for speed in of)
    assert all(peak > 0 for peak in peaks.values())
