"""How many translations change if lines are in other batches.

10,000 lines of Multi30k's training text are translated as by `nmt translate`, and then in other
batches, in another order and by another number of workers. Changed lines are listed with the scores
of both translations. If the scores are nearly equal, the difference is rounding.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from benchmarks.corpora import first_lines, real_text
from benchmarks.harness import publish, setting, table
from benchmarks.machine import describe, has_bf16
from benchmarks.translation import model_of

from nmt.jobs.lines import Line
from nmt.jobs.options import JobOptions
from nmt.jobs.parallel import Translators
from nmt.search.options import SearchOptions
from nmt.translate.options import TranslationConfig
from nmt.translate.output import Translation

pytestmark = pytest.mark.benchmark

LINES = setting("LINES", 10_000)
VARIANTS: Mapping[str, Mapping[str, str | int]] = {
    "batches of 512 tokens": {"batch_tokens": 512},
    "batches of 16,384 tokens": {"batch_tokens": 16_384},
    "one worker, lines shuffled": {"workers": "1"},
}
LISTED = 20


def test_batch_invariance(tmp_path: Path) -> None:
    lines = first_lines(real_text("multi30k") / "train", "en", LINES)
    model = model_of("small", tmp_path)
    publish(f"{describe()}. {len(lines):,} lines, beam 4.")
    rows = []
    for precision in ("fp32", *(["bf16"] if has_bf16() else [])):
        usual = translate(model, precision, lines, {})
        for name, changes in VARIANTS.items():
            order = list(range(len(lines)))
            if "shuffled" in name:
                Random(1).shuffle(order)
            found = translate(model, precision, [lines[at] for at in order], changes)
            pairs = [(usual[at], other) for at, other in zip(order, found, strict=True)]
            changed = [(a, b) for a, b in pairs if a.text != b.text]
            gaps = [abs(a.score - b.score) for a, b in changed]
            rows.append(
                {
                    "": f"{precision}, {name}",
                    "lines changed": f"{len(changed):,}",
                    "largest difference of scores": f"{max(gaps):.1e}" if gaps else "",
                }
            )
            for a, b in changed[:LISTED]:
                publish(f"{precision}: {a.score:.6f} {a.text}\n      {b.score:.6f} {b.text}")
    publish(table(rows))
    assert len(rows) >= len(VARIANTS)


def translate(
    model: Path, precision: str, lines: Sequence[str], changes: Mapping[str, str | int]
) -> list[Translation]:
    config = TranslationConfig(models=(model,), search=SearchOptions(), precision=precision)
    options = JobOptions(device="cpu", **changes)  # type: ignore[arg-type]
    with Translators.start(config, options) as translators:
        (found,) = translators.translate([[Line(line) for line in lines]], lambda _: None)
    return found
