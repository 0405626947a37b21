"""Constraints on prefixes and lengths, against all translations that there are."""

from __future__ import annotations

import pytest
from reference import NextLogits, TableState, all_translations, log_softmax
from tables import SPECIAL, TABLES, UNK, VOCAB, A, B, C, decoded, ids_of, random_table

from nmt.search.beam_search import decode
from nmt.search.engine import Ids, Source
from nmt.search.hypotheses import Constraints, Group
from nmt.search.options import SearchOptions

PREFIXES: list[Ids] = [(), (A,), (B, C), (C, C, A), (UNK, A, B, C, A)]
"""The last one is longer than the limits, and has a token that is barred elsewhere."""


def test_what_is_from_within_a_very_long_word_has_few_tokens_more() -> None:
    of_text, in_word = Source((A,) * 64), Source((A,) * 64, is_in_word=True)
    assert Constraints([of_text, in_word], SearchOptions()).longest.tolist() == [114, 74]
    few = SearchOptions(max_extra_tokens=3)
    assert Constraints([of_text, in_word], few).longest.tolist() == [67, 67]


@pytest.mark.parametrize("width", [1, 2, 40])
@pytest.mark.parametrize(
    ("length", "fewest", "most", "limit"),
    [
        (3, 0, None, 3),
        (3, 1, None, 3),
        (3, 3, None, 3),
        (9, 2, 2, 2),
        (9, 0, 2, 2),
        (1, 3, None, 3),
    ],
)
def test_translations_are_the_best_of_those_that_are_allowed(
    length: int, fewest: int, most: int | None, limit: int, width: int
) -> None:
    options = SearchOptions(
        beam_size=width,
        n_best=width,
        length_penalty=0.0,
        barred_ids=SPECIAL,
        max_extra_tokens=0,
        min_tokens=fewest,
        max_tokens=most,
    )
    tables = [random_table(seed) for seed in range(len(PREFIXES))]
    sources = [Source((A,) * length, prefix) for prefix in PREFIXES]
    together = decoded(tables, sources, options)
    for table, source, found in zip(tables, sources, together, strict=True):
        assert found == decoded([table], [source], options)[0]
        # The prefix's own tokens count like all others.
        prefix = source.prefix
        given = sum(log_softmax(table(prefix[:t]))[token] for t, token in enumerate(prefix))
        allowed = {
            ids: given + rest
            for ids, rest in all_translations(table, max(limit, len(prefix)), SPECIAL, prefix)
            if len(ids) >= fewest
        }
        assert [h.log_prob for h in found] == pytest.approx([allowed[h.ids] for h in found])
        if width == 40:  # exhaustive
            assert ids_of(found) == sorted(allowed, key=lambda ids: -allowed[ids])


def test_a_prefix_is_gone_through_in_one_row() -> None:
    state = TableState([random_table(1), random_table(2)])
    group = Group([0, 1], [Source((A,) * 9, (A, B, A))] * 2, state, cost=1)
    list(decode(TABLES, iter([group]), SearchOptions(beam_size=3, barred_ids=SPECIAL)))
    assert state.rows_of_steps[:5] == [2, 2, 2, 2, 6]


def test_what_follows_no_hypothesis_is_of_no_concern() -> None:
    # The second sentence widens the group, and the rows that the first one has no use for are fed
    # with whatever there is.
    def nowhere_but_in_the_prefix(prefix: Ids) -> list[float]:
        if prefix[:2] != (C, B)[: len(prefix)]:
            return [float("nan")] * VOCAB
        return list(random_table(1)(prefix))

    tables: list[NextLogits] = [nowhere_but_in_the_prefix, random_table(2)]
    prepared = [Source((A,) * 4, (C, B)), Source((A,) * 4)]
    options = SearchOptions(beam_size=3, barred_ids=SPECIAL, max_extra_tokens=0)
    found, _ = decoded(tables, prepared, options)
    assert [found] == decoded(tables[:1], prepared[:1], options)
    assert found[0].ids[:2] == (C, B)
