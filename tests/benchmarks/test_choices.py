"""What lists of translations give: how much they differ, and what minimum Bayes risk takes of them.

Captions of Multi30k. Time is CPU time, so other work on the machine counts little.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.corpora import multi30k_test
from benchmarks.harness import publish, setting, table
from benchmarks.machine import describe
from benchmarks.translation import model_of

from nmt.scoring.agreement import agreement
from nmt.scoring.metrics import score
from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.translate.minimum_risk import by_utility
from nmt.translate.translator import Translator

pytestmark = pytest.mark.benchmark

LINES = setting("LINES", 200)

MBR = {
    "beam 4": SearchOptions(),
    "beam 16": SearchOptions(beam_size=16),
    "--n-best 16, beam 16": SearchOptions(beam_size=16, n_best=16),
    "--n-best 16, --diverse 4": SearchOptions(beam_size=16, n_best=16, diverse=4),
    "--sample --n-best 16": SearchOptions(n_best=16, sampling=Sampling()),
    "the same, --temperature 0.5": SearchOptions(n_best=16, sampling=Sampling(temperature=0.5)),
    "--sample --n-best 64 --temperature 0.5": SearchOptions(
        n_best=64, sampling=Sampling(temperature=0.5)
    ),
}
LISTS = {
    "--n-best 8, beam 8": {},
    "--diverse 2": {"diverse": 2},
    "--diverse 4": {"diverse": 4},
    "--diverse 8": {"diverse": 8},
    "--diverse 8 --diversity 2": {"diverse": 8, "diversity": 2.0},
}


def test_minimum_bayes_risk(tmp_path: Path) -> None:
    model = model_of("small", tmp_path)
    lines, references = multi30k_test(LINES)
    rows = []
    for name, options in MBR.items():
        translator = Translator.load(model, options)
        began = time.process_time()
        found = translator.translate(lines)
        searched = time.process_time() - began
        for metric in ("", "chrf", "bleu") if options.n_best > 1 else ("",):
            began = time.process_time()
            chosen = [by_utility(one, metric) for one in found] if metric else found
            seconds = time.process_time() - began
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
    assert len(rows) == 2 + 3 * 5


def test_lists(tmp_path: Path) -> None:
    model = model_of("small", tmp_path)
    lines, references = multi30k_test(LINES)
    rows = []
    for name, changes in LISTS.items():
        options = SearchOptions(beam_size=8, n_best=8, **changes)  # type: ignore[arg-type]
        translator = Translator.load(model, options)
        began = time.process_time()
        found = translator.translate(lines)
        seconds = time.process_time() - began
        texts = [[one.text for one in line.n_best] for line in found]
        assert all(len(set(one)) == len(one) for one in texts)
        pairs = [agreement(one, "bleu")[~np.eye(len(one), dtype=bool)].mean() for one in texts]
        oracle = [
            max(own, key=lambda text: score([text], [[reference]], ("chrf",))["chrf"].score)
            for own, reference in zip(texts, references, strict=True)
        ]
        rows.append(
            {
                "": name,
                "texts of a line": f"{np.mean([len(one) for one in texts]):.2f}",
                "without the comparison of texts": f"{different(translator, lines):.2f}",
                "self-BLEU": f"{np.mean(pairs):.1f}",
                "BLEU of the first": f"{bleu([one[0] for one in texts], references):.2f}",
                "of the best by chrF": f"{bleu(oracle, references):.2f}",
                "CPU seconds": f"{seconds:.1f}",
            }
        )
    publish(f"{describe()}. {len(lines):,} captions, one thread.\n\n{table(rows)}")
    assert len(rows) == len(LISTS)


def different(translator: Translator, lines: list[str]) -> float:
    """Return how many texts there are of a line if search does not compare texts."""
    engine = translator.engine.with_options(replace(translator.engine.options, decode=None))
    sources = [Source(tuple(ids)) for ids in translator.src_vocabulary.encode(lines)]
    found = [one for one in engine.search(sources) if not isinstance(one, str)]
    texts = [translator.tgt_vocabulary.decode([one.ids for one in best]) for best in found]
    return float(np.mean([len(set(one)) for one in texts]))


def bleu(texts: list[str], references: list[str]) -> float:
    return score(texts, [references])["bleu"].score
