"""All pairs at once have the scores that sacreBLEU gives each pair."""

from __future__ import annotations

from random import Random

import pytest
from sacrebleu import BLEU, CHRF

from nmt.scoring.agreement import agreement

ODD = [
    "",
    " ",
    "a",
    "aaaa aaaa",
    "A man, who is (not) asleep; isn't he?",
    "a man , who is ( not ) asleep",
    "Größe 3,5 m – 日本語😀",
    "a\u00a0b\tc  d",
    "the the the the the the the",
    "x" * 300,
]


def sentences(count: int) -> list[str]:
    random = Random(1)
    words = "the a man woman dog , . sleeps and with runs in 3.5 red".split()  # noqa: SIM905
    return [" ".join(random.choices(words, k=random.randint(1, 14))) for _ in range(count)]


@pytest.mark.parametrize("texts", [ODD, sentences(25), [*ODD[::-1], *ODD[:4]], ["", ""], ["a"]])
@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_each_pair_has_sacrebleu_s_score(metric: str, texts: list[str]) -> None:
    theirs = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    found = agreement(texts, metric)
    for row, hypothesis in zip(found, texts, strict=True):
        expected = [theirs.sentence_score(hypothesis, [reference]).score for reference in texts]
        assert row == pytest.approx(expected, abs=1e-9)
