"""What minimum Bayes risk takes of lists of translations.

Captions of Multi30k. Time is CPU time, so other work on the machine counts little.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from benchmarks.corpora import multi30k_test
from benchmarks.harness import cpu_time, publish, setting, table
from benchmarks.machine import describe
from benchmarks.translation import model_of

from nmt.scoring.metrics import score
from nmt.search.options import Sampling, SearchOptions
from nmt.translate.minimum_risk import by_utility
from nmt.translate.translator import Translator

pytestmark = pytest.mark.benchmark

LINES = setting("LINES", 200)

MBR = {
    "beam 4": SearchOptions(),
    "beam 16": SearchOptions(beam_size=16),
    "--n-best 16, beam 16": SearchOptions(beam_size=16, n_best=16),
    "--sample --n-best 16": SearchOptions(n_best=16, sampling=Sampling()),
    "the same, --temperature 0.5": SearchOptions(n_best=16, sampling=Sampling(temperature=0.5)),
    "--sample --n-best 64 --temperature 0.5": SearchOptions(
        n_best=64, sampling=Sampling(temperature=0.5)
    ),
}


def test_minimum_bayes_risk(tmp_path: Path) -> None:
    model = model_of("small", tmp_path)
    lines, references = multi30k_test(LINES)
    rows = []
    for name, options in MBR.items():
        translator = Translator.load(model, options)
        found, searched = cpu_time(partial(translator.translate, lines))
        for metric in ("", "chrf", "bleu") if options.n_best > 1 else ("",):
            chosen, seconds = found, 0.0
            if metric:
                choose = partial(by_utility, metric=metric)
                chosen, seconds = cpu_time(partial(list, map(choose, found)))
            scores = score([one.text for one in chosen], [references], ("bleu", "chrf"))
            rows.append(
                {
                    "": f"{name}, --mbr by {metric}" if metric else f"{name}: the best score",
                    "BLEU": f"{scores['bleu'].score:.2f}",
                    "chrF": f"{scores['chrf'].score:.2f}",
                    "search, CPU seconds": f"{searched:.1f}",
                    "--mbr": f"{seconds:.2f} ({seconds / (searched + seconds):.1%})"
                    if metric
                    else "",
                }
            )
    publish(f"{describe()}. {len(lines):,} captions, one thread.\n\n{table(rows)}")
    assert len(rows) == 2 + 3 * 4
