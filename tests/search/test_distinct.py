"""N-best lists of different texts: equal ones count once, and groups avoid each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import pytest
from reference import Ids, NextLogits, all_translations, log_softmax
from tables import EOS, SPECIAL, A, B, C, decoded, ids_of, random_table, search

from nmt.search.engine import Source
from nmt.search.options import SearchOptions

ALLOWED = [EOS, A, B, C]


def text_of(ids: Sequence[int]) -> str:
    """A and B are the same text."""
    return "".join({A: "a", B: "a", C: "c"}[token] for token in ids)


def texts_of(ids: Sequence[Sequence[int]]) -> list[str]:
    return [text_of(one) for one in ids]


OPTIONS = SearchOptions(beam_size=4, n_best=4, barred_ids=SPECIAL, decode=texts_of)


def wu(length: int) -> float:
    return float(((5 + length) / 6) ** 0.6)


# ------------------------------------------------------------------------- equal texts


@pytest.mark.parametrize("n_best", [1, 5, 60])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_beam_finds_the_best_of_each_text(seed: int, n_best: int) -> None:
    table = random_table(seed)
    best: dict[str, tuple[float, Ids]] = {}
    for ids, log_prob in all_translations(table, 3, SPECIAL):
        best[text_of(ids)] = max(
            best.get(text_of(ids), (-math.inf, ())), (log_prob / wu(len(ids) + 1), ids)
        )
    assert len(best) < 40  # of all translations
    (found,) = search([table], [3], replace(OPTIONS, beam_size=60, n_best=n_best))
    assert ids_of(found) == [ids for _, ids in sorted(best.values(), reverse=True)][:n_best]


def test_a_narrow_beam_goes_on_until_there_are_enough_texts() -> None:
    shorter = 0
    for seed in range(30):
        (found,) = search([random_table(seed)], [9], OPTIONS)
        texts = texts_of(ids_of(found))
        assert len(set(texts)) == len(texts) == 4
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        (free,) = search([random_table(seed)], [9], replace(OPTIONS, decode=None))
        assert found[0] == free[0]
        shorter += len(set(texts_of(ids_of(free)))) < 4
    assert shorter > 3  # what was there before
