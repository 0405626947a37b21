"""What may not be repeated, or costs more when it is, against all translations that there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from reference import Ids, NextLogits, TableState, all_translations
from tables import (
    EOS,
    SPECIAL,
    TABLES,
    A,
    B,
    C,
    decoded,
    ids_of,
    in_order,
    random_table,
    search,
    sources,
)

from nmt.search.beam_search import decode
from nmt.search.engine import Source
from nmt.search.hypotheses import Group
from nmt.search.options import Sampling, SearchOptions
from nmt.search.repetition import count_loops, repeating_tokens, tokens_so_far

PLAIN = SearchOptions(length_penalty=0.0, barred_ids=SPECIAL)


def has_repeat(ids: Ids, size: int) -> bool:
    ngrams = [ids[start : start + size] for start in range(len(ids) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_a_token_repeats_an_ngram_exactly_if_it_stands_there_twice_then(size: int) -> None:
    ids = np.random.default_rng(1).integers(4, 7, (50, 7))
    found = set(map(tuple, repeating_tokens(ids, size).tolist()))
    expected = set()
    for row, own in enumerate(ids.tolist()):
        ngrams = {tuple(own[start : start + size]) for start in range(7 - size + 1)}
        last = tuple(own[len(own) - size + 1 :]) if size > 1 else ()
        expected |= {(row, token) for token in range(9) if (*last, token) in ngrams}
    assert found == expected
    assert bool(found) == (size < 8)


def test_all_tokens_so_far_are_listed() -> None:
    assert tokens_so_far(np.array([[5, 6], [7, 5]])).tolist() == [[0, 5], [0, 6], [1, 7], [1, 5]]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_wide_beam_finds_the_best_without_a_repeated_ngram(size: int) -> None:
    limit = 4
    for seed in range(3):
        table = random_table(seed)
        everything = all_translations(table, limit, SPECIAL)
        allowed = {ids: log_prob for ids, log_prob in everything if not has_repeat(ids, size)}
        assert len(allowed) < len(everything)
        options = replace(PLAIN, beam_size=130, n_best=130, no_repeat_ngram=size)
        (found,) = search([table], [limit], options)
        assert ids_of(found) == sorted(allowed, key=lambda ids: -allowed[ids])
        # The others keep their log-probabilities.
        assert [h.log_prob for h in found] == pytest.approx([allowed[h.ids] for h in found])


def penalised(table: NextLogits, penalty: float) -> NextLogits:
    def next_logits(prefix: Ids) -> Sequence[float]:
        logits = list(table(prefix))
        for token in set(prefix):
            logits[token] *= 1 / penalty if logits[token] > 0 else penalty
        return logits

    return next_logits


@pytest.mark.parametrize("sampling", [None, Sampling(top_k=3, seed=2)])
@pytest.mark.parametrize("width", [1, 3])
def test_a_penalty_is_search_with_other_logits(width: int, sampling: Sampling | None) -> None:
    plain = replace(PLAIN, beam_size=width, n_best=width, sampling=sampling)
    tables = [random_table(seed) for seed in range(6)]
    found = search(tables, [6] * 6, replace(plain, repetition_penalty=1.7))
    expected = search([penalised(table, 1.7) for table in tables], [6] * 6, plain)
    assert found != search(tables, [6] * 6, plain)
    for ours, theirs in zip(found, expected, strict=True):
        assert ids_of(ours) == ids_of(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


def test_samples_repeat_no_ngram() -> None:
    tables, limits = [random_table(seed) for seed in range(5)], [3, 9, 8, 5, 9]
    options = replace(PLAIN, n_best=9, sampling=Sampling(seed=3), no_repeat_ngram=2)
    found = search(tables, limits, options)
    drawn = [h.ids for best in found for h in best]
    assert len(drawn) == 45
    assert not [ids for ids in drawn if has_repeat(ids, 2)]
    free = search(tables, limits, replace(options, no_repeat_ngram=0))
    assert [ids for best in free for ids in ids_of(best) if has_repeat(ids, 2)]


def test_a_prefix_may_repeat_itself_and_the_rest_may_not_repeat_it() -> None:
    prefix = (A, B, A, B, C)
    options = replace(PLAIN, beam_size=9, n_best=9, no_repeat_ngram=2)
    (found,) = decoded([random_table(1)], [Source((A,) * 8, prefix)], options)
    for one in found:
        assert one.ids[:5] == prefix
        assert not has_repeat(one.ids[2:], 2)
        assert (B, A) not in {*zip(one.ids[4:], one.ids[5:], strict=False)}


@pytest.mark.parametrize("sampling", [None, Sampling(seed=2)])
@pytest.mark.parametrize(("size", "penalty"), [(2, 1.0), (1, 1.0), (0, 1.5), (2, 1.5)])
def test_what_stands_beside_a_sentence_changes_nothing(
    size: int, penalty: float, sampling: Sampling | None
) -> None:
    # Groups join at different times, so their hypotheses have different lengths.
    options = replace(
        PLAIN,
        beam_size=2,
        n_best=2,
        sampling=sampling,
        max_extra_tokens=0,
        no_repeat_ngram=size,
        repetition_penalty=penalty,
    )
    tables, limits = [random_table(seed) for seed in range(8)], [2, 9, 5, 7, 3, 8, 6, 4]
    groups = (Group([n], [sources(limits)[n]], TableState([tables[n]]), cost=1) for n in range(8))
    together = in_order(decode(TABLES, groups, options, budget=3))
    assert together == [
        search([table], [limit], options)[0] for table, limit in zip(tables, limits, strict=True)
    ]


# ----------------------------------------------------------------------------------- loops


@pytest.mark.parametrize(
    ("ids", "places"),
    [
        ([], 0),
        ([A] * 11, 0),
        ([A] * 12, 1),  # three times four
        ([A] * 15, 5),  # three times four at four places, and three times five
        ([A, B] * 6, 1),
        ([A, B, C] * 4, 0),  # four tokens three times in a row: A B C A is not
        ([A, B, C] * 6, 1),  # A B C A B C is
        ([A, B, C, 9] * 3, 1),
        ([A, B, C, 9] * 2, 0),
        ([7, 8, 9, *[A, B, C, 9, 10] * 3, 11], 1),
        ([A, B, C, 9, 10, A, B, C, 9, 11, A, B, C, 9], 0),  # not in a row
        (list(range(30)) * 3, 1),
    ],
)
def test_loops_are_counted_by_hand(ids: list[int], places: int) -> None:
    assert count_loops(ids) == places


def test_loops_are_counted_as_by_their_definition() -> None:
    random = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        block = random.integers(4, 7, random.integers(1, 7)).tolist()
        ids = [*random.integers(4, 7, 3).tolist(), *block * int(random.integers(1, 9)), EOS]
        expected = sum(
            ids[start : start + size] * 3 == ids[start : start + 3 * size]
            for size in range(4, len(ids) // 3 + 1)
            for start in range(len(ids) - 3 * size + 1)
        )
        assert count_loops(ids) == expected
        seen.add(expected)
    assert len(seen) > 5
