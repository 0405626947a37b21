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


# ------------------------------------------------------------------------------ groups


def diverse_beams(
    table: NextLogits, limit: int, groups: int, width: int, diversity: float, n_best: int
) -> list[tuple[Ids, float]]:
    """Vijayakumar et al. 2018, algorithm 1, in loops: ids and scores, from each group in turn."""
    beams: list[list[tuple[Ids, float]]] = [[((), 0.0)] for _ in range(groups)]
    finished: list[list[tuple[Ids, float]]] = [[] for _ in range(groups)]
    for length in range(limit + 1):
        taken: list[int] = []
        for group in range(groups):
            candidates = []
            for ids, log_prob in beams[group]:
                log_probs = log_softmax(table(ids))
                for token in ALLOWED if length < limit else [EOS]:
                    if log_probs[token] == -math.inf:
                        continue
                    total = log_prob + log_probs[token]
                    candidates.append((total - diversity * taken.count(token), total, ids, token))
            candidates.sort(key=lambda one: -one[0])
            candidates = candidates[: 2 * width]
            finished[group] += [
                (ids, total / wu(length + 1))
                for _, total, ids, token in candidates[:width]
                if token == EOS
            ]
            active = [one for one in candidates if one[3] != EOS][:width]
            beams[group] = [((*ids, token), total) for _, total, ids, token in active]
            taken += [token for *_, token in active]
        different = {ids for one in finished for ids, _ in one}
        if all(len(one) >= width for one in finished) and len(different) >= n_best:
            break
    for one in finished:
        one.sort(key=lambda pair: -pair[1])
    in_turn = [pair for row in zip_longest(*finished) for pair in row if pair is not None]
    return list(dict(in_turn).items())


def without_repeats(table: NextLogits) -> NextLogits:
    return lambda prefix: [
        -math.inf if token in prefix else logit for token, logit in enumerate(table(prefix))
    ]


@pytest.mark.parametrize("diversity", [0.0, 0.5, 3.0])
@pytest.mark.parametrize(("groups", "width"), [(2, 1), (2, 2), (3, 2), (4, 1)])
def test_groups_find_what_the_algorithm_finds(groups: int, width: int, diversity: float) -> None:
    # 0.5 is the default, and only other values are refused without groups.
    size = groups * width
    options = replace(
        OPTIONS, decode=None, beam_size=size, n_best=size, diverse=groups, diversity=diversity
    )
    limits = [6, 2, 0, 5, 6, 4, *[6] * 20]
    tables = [random_table(seed) for seed in range(6)]
    # Here, hypotheses run out of words, and are fewer than a beam holds.
    tables += [without_repeats(random_table(seed)) for seed in range(20)]
    for table, limit, found in zip(tables, limits, search(tables, limits, options), strict=True):
        expected = diverse_beams(table, limit, groups, width, diversity, size)[:size]
        assert sorted(ids_of(found)) == sorted(ids for ids, _ in expected)
        assert [one.score for one in found] == pytest.approx(
            sorted((score for _, score in expected), reverse=True), rel=1e-5
        )
        assert search([table], [limit], options) == [found]  # whatever stands beside it


def test_groups_that_avoid_each_other_begin_differently() -> None:
    options = replace(OPTIONS, beam_size=3, n_best=3, diverse=3, diversity=100.0)
    options = replace(options, decode=None, min_tokens=1)
    for seed in range(5):
        (found,) = search([random_table(seed)], [4], options)
        assert {one.ids[0] for one in found} == {A, B, C}


def test_a_list_shorter_than_the_beam_has_something_of_each_group() -> None:
    plain = replace(OPTIONS, decode=None, n_best=2)
    options = replace(plain, diverse=2, diversity=9.0)
    others = 0
    for seed in range(5):
        (found,) = search([random_table(seed)], [5], options)
        expected = diverse_beams(random_table(seed), 5, 2, 2, 9.0, 2)[:2]
        assert sorted(ids_of(found)) == sorted(ids for ids, _ in expected)
        others += found != search([random_table(seed)], [5], plain)[0]
    assert others


def test_a_prefix_is_kept_in_all_groups() -> None:
    options = replace(OPTIONS, beam_size=4, n_best=4, diverse=4, diversity=9.0, decode=None)
    (found,) = decoded([random_table(1)], [Source((A,) * 6, (C, B, A))], options)
    assert len(found) > 1
    assert all(one.ids[:3] == (C, B, A) for one in found)


def test_what_stands_beside_a_sentence_changes_nothing() -> None:
    # The second sentence widens the beams, and rows without a hypothesis have tokens, too.
    options = replace(OPTIONS, beam_size=24, n_best=24, diverse=2, decode=None, max_extra_tokens=0)
    for seed in range(5):
        tables = [random_table(seed), random_table(9)]
        prepared = [Source((A,) * 4, (C, B)), Source((A,) * 4)]
        found, _ = decoded(tables, prepared, options)
        assert [found] == decoded(tables[:1], prepared[:1], options)


def test_a_sentence_whose_logits_are_no_numbers_has_no_hypotheses() -> None:
    def breaks(prefix: Ids) -> Sequence[float]:
        return [math.nan] * 7 if prefix[:1] == (C,) else random_table(1)(prefix)

    options = replace(OPTIONS, beam_size=3, n_best=3, diverse=3, diversity=9.0, min_tokens=1)
    good, bad = search([random_table(2), breaks], [4, 4], options)
    assert len(good) == 3
    assert not bad
