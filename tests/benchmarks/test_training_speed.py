"""`nmt train` as it is typed, beside the same training in one process, and beside Marian.

Musts, on two cores, fp32, in source and target tokens a second of training, in turn:
`transformer_low_resource` does 1.25 times what one process does, and aims at 1.45 times.
`transformer_small` does no less than one process. The peak of memory is that of all processes, with
a validation at the end. `transformer_portable_few` aims at Marian's.
"""

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
LARGE = [("transformer_small", 4_096), ("transformer_base", 4_096)]
SMALL = [("transformer_low_resource", 2_000), ("transformer_portable_few", 2_000)]
MODELS = {"multi30k": [*SMALL, *LARGE], "europarl": LARGE}
"""Presets and target tokens of an update, by text. Marian has all but the first."""
MARIAN = "Marian, fp32"
ALONE = ", one process"


@pytest.mark.parametrize("corpus", MODELS)
def test_training_speed(corpus: str, tmp_path: Path) -> None:
    data, rates = getattr(corpora, corpus)(tmp_path / "data"), product_rates("cpu")
    listed = ", ".join(f"{rate / 1e9:,.0f} {name}" for name, rate in rates.items())
    publish(f"{describe()}. Matrix products in GFLOP/s, best: {listed}.")
    for preset, batch_tokens in MODELS[corpus]:
        job, systems = Job(data, preset, batch_tokens), dict[str, Contender]()
        for precision in ("fp32", *(["bf16"] if has_bf16() else [])):
            name = f"nmt, {precision}"
            systems[name] = training.nmt(job, precision, tmp_path)
            systems[name + ALONE] = training.nmt(job, precision, tmp_path, processes="1")
        if is_installed("pymarian") and preset != "transformer_low_resource":
            systems[MARIAN] = training.marian(job, tmp_path / f"marian-{preset}")
        tokens = dict.fromkeys(systems, update_tokens(DataFolder.open(data), batch_tokens))
        found = training.timed(systems, tokens, warmup=3, seconds=SECONDS, rounds=rounds())
        speeds = {name: [one.tokens_per_second for one in of] for name, of in found.items()}

        def beside(name: str, other: str, speeds: dict[str, list[float]] = speeds) -> str:
            return f"{median(speeds[name]) / median(speeds[other]):.2f}x" if other in speeds else ""

        rows = []
        for name, of in speeds.items():
            precision = name.split(", ")[1]
            share = flops_per_token(job) * median(of) / best_rate(rates, precision)
            peak = median(one.peak_bytes for one in found[name])
            rows.append(
                {
                    f"{preset}, {corpus}, {batch_tokens:,} target tokens an update": name,
                    "source + target tokens/s, median (range)": spread(of),
                    "one process": beside(name, name + ALONE),
                    "Marian": beside(name, MARIAN),
                    "of matrix products": f"{share:.0%}",
                    "peak GiB": f"{peak / 2**30:.2f}",
                }
            )
        publish(table(rows))
        assert min(map(min, speeds.values())) > 0
