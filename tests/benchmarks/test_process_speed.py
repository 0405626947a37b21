"""`nmt train` as it is typed, on all cores, beside the same training in one process.

Musts, on two cores, fp32, in source and target tokens a second of training, in turn:

- `transformer_low_resource` on Multi30k: 1.25 times one process; the aim is 1.45 times.
- `transformer_small` on Multi30k: not below one process, and see `test_training_speed.py`.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from benchmarks import corpora, training
from benchmarks.harness import publish, rounds, setting, spread, table
from benchmarks.machine import describe, has_bf16
from benchmarks.training import Job, update_tokens

from nmt.config.presets import preset_values
from nmt.data.folder import DataFolder

pytestmark = pytest.mark.benchmark

ROUNDS = rounds()
SECONDS = setting("SECONDS", 30.0)  # of one measurement, warm-up not counted
WARMUP = 3  # updates
CHOSEN, ONE = "as chosen", "one process"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpora.multi30k(tmp_path_factory.mktemp("data") / "multi30k", vocab_size=4_000)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("preset", ["transformer_low_resource", "transformer_small"])
def test_all_cores_train(preset: str, precision: str, data: Path, tmp_path: Path) -> None:
    if precision == "bf16" and not has_bf16():
        pytest.skip("needs a CPU with bf16")
    batch_tokens = preset_values(preset)["batch_tokens"]
    assert isinstance(batch_tokens, int)
    job = Job(data, preset, batch_tokens)
    systems = {
        ONE: training.nmt(job, precision, tmp_path, processes="1"),
        CHOSEN: training.nmt(job, precision, tmp_path),
    }
    tokens = dict.fromkeys(systems, update_tokens(DataFolder.open(data), batch_tokens))
    found = training.timed(systems, tokens, warmup=WARMUP, seconds=SECONDS, rounds=ROUNDS)
    speeds = {name: [one.tokens_per_second for one in of] for name, of in found.items()}

    def row(name: str) -> dict[str, str]:
        return {
            f"{preset}, {precision}, {batch_tokens:,} target tokens an update": name,
            f"source + target tokens/s, median of {ROUNDS} (range)": spread(speeds[name]),
            ONE: f"{median(speeds[name]) / median(speeds[ONE]):.2f}x",
            "peak GiB": f"{median(one.peak_bytes for one in found[name]) / 2**30:.2f}",
        }

    publish(f"{describe()}.\n\n{table(map(row, systems))}")
    assert all(speed > 0 for of in speeds.values() for speed in of)
