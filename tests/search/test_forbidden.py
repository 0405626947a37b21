"""Token sequences that translations may not contain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference import Ids, NextLogits, all_translations
from tables import SPECIAL, A, B, C, decoded, ids_of, random_table

from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.phrases import Phrase
from nmt.search.top_k import StepQuery

OPTIONS = SearchOptions(
    beam_size=130,
    n_best=130,
    length_penalty=0.0,
    barred_ids=SPECIAL,
    max_extra_tokens=0,
    forbidden=((A, B), (C, C, A)),
)
LIMIT = 4


def contains(ids: Ids, sequence: Ids) -> bool:
    return any(ids[at : at + len(sequence)] == sequence for at in range(len(ids)))


def sources() -> list[Source]:
    barred: list[tuple[Ids, ...]] = [(), ((B,),), ((A, C), (B, B, B))]
    return [Source((A,) * LIMIT, barred=own) for own in barred]


def test_a_wide_beam_finds_all_translations_without_the_sequences() -> None:
    tables: list[NextLogits] = [random_table(seed) for seed in range(3)]
    for table, source, found in zip(
        tables, sources(), decoded(tables, sources(), OPTIONS), strict=True
    ):
        expected = {
            ids: log_prob
            for ids, log_prob in all_translations(table, LIMIT, SPECIAL)
            if not any(contains(ids, one) for one in (*OPTIONS.forbidden, *source.barred))
        }
        assert len(expected) < 121
        assert ids_of(found) == sorted(expected, key=lambda ids: -expected[ids])
        assert [one.log_prob for one in found] == pytest.approx([expected[h.ids] for h in found])


def test_what_is_on_no_shortlist_need_not_be_barred() -> None:
    query = StepQuery(
        np.full(2, 3), np.ones(2, np.bool_), np.zeros(2), barred=np.array([[0, 7], [1, 8], [1, 99]])
    )
    assert query.onto(np.array([0, 1, 2, 3, 5, 8])).barred.tolist() == [[1, 5]]


def test_samples_do_not_have_them_either() -> None:
    options = replace(OPTIONS, beam_size=4, n_best=50, sampling=Sampling(seed=3))
    (found,) = decoded([random_table(4)], sources()[:1], options)
    assert len({*ids_of(found)}) > 5
    assert not any(contains(one.ids, own) for one in found for own in OPTIONS.forbidden)


def test_a_phrase_is_not_placed_where_it_would_complete_one() -> None:
    # B is wanted, but never after A.
    source = Source((A,) * LIMIT, phrases=(Phrase(((B,),)),))
    table = random_table(1)
    expected = {
        ids
        for ids, _ in all_translations(table, LIMIT, SPECIAL)
        if B in ids and not any(contains(ids, one) for one in OPTIONS.forbidden)
    }
    (found,) = decoded([table], [source], OPTIONS)
    assert set(ids_of(found)) == expected
