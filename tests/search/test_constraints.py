"""Constraints on prefixes and lengths, against all translations that there are."""

from __future__ import annotations

import pytest
from reference import TableState, all_translations
from tables import SPECIAL, TABLES, VOCAB, A, B, C, in_order, random_table, search

from nmt.errors import UsageError
from nmt.search.beam_search import decode
from nmt.search.engine import Ids, Source
from nmt.search.hypotheses import Constraints, Group
from nmt.search.options import SearchOptions

LIMIT = 3
PREFIXES: list[Ids] = [(), (A,), (B, C), (C, C, A)]


def test_what_is_from_within_a_very_long_word_has_few_tokens_more() -> None:
    of_text, in_word = Source((A,) * 64), Source((A,) * 64, is_in_word=True)
    assert Constraints([of_text, in_word], SearchOptions()).longest.tolist() == [114, 74]
    few = SearchOptions(max_extra_tokens=3)
    assert Constraints([of_text, in_word], few).longest.tolist() == [67, 67]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_beam_finds_the_best_translations_with_the_prefix(seed: int, prefix: Ids) -> None:
    table = random_table(seed)
    everything = all_translations(table, LIMIT, SPECIAL)
    options = SearchOptions(
        beam_size=40,
        n_best=40,
        length_penalty=0.0,
        barred_ids=SPECIAL,
        max_extra_tokens=0,
    )
    source = Source((A,) * LIMIT, prefix)
    group = Group([0], [source], TableState([table]), cost=1)
    (found,) = in_order(decode(TABLES, iter([group]), options))
    expected = sorted(
        ((log_prob, ids) for ids, log_prob in everything if ids[: len(prefix)] == prefix),
        reverse=True,
    )
    assert [h.ids for h in found] == [ids for _, ids in expected]
    # The prefix's own tokens count like all others.
    assert [h.log_prob for h in found] == pytest.approx([log_prob for log_prob, _ in expected])


def test_a_prefix_may_hold_what_is_barred_and_be_longer_than_the_limit() -> None:
    unknown = SPECIAL[1]
    prefix = (unknown, A, B, C, A)
    group = Group([0], [Source((A,), prefix)], TableState([random_table(1)]), cost=1)
    options = SearchOptions(barred_ids=SPECIAL, max_extra_tokens=0)
    (found,) = in_order(decode(TABLES, iter([group]), options))
    assert found[0].ids == prefix


def test_a_prefix_is_gone_through_in_one_row() -> None:
    state = TableState([random_table(1), random_table(2)])
    group = Group([0, 1], [Source((A,) * 9, (A, B, A))] * 2, state, cost=1)
    list(decode(TABLES, iter([group]), SearchOptions(beam_size=3, barred_ids=SPECIAL)))
    assert state.rows_of_steps[:5] == [2, 2, 2, 2, 6]


def test_sentences_with_and_without_prefixes_go_together() -> None:
    tables = [random_table(seed) for seed in range(4)]
    options = SearchOptions(beam_size=2, barred_ids=SPECIAL, max_extra_tokens=0)
    prepared = [Source((A,) * 4, prefix) for prefix in PREFIXES]
    together = decode(
        TABLES, iter([Group(range(4), prepared, TableState(tables), cost=1)]), options
    )
    alone = [
        next(decode(TABLES, iter([Group([0], [source], TableState([table]), cost=1)]), options))[1]
        for source, table in zip(prepared, tables, strict=True)
    ]
    assert in_order(together) == alone


@pytest.mark.parametrize("width", [1, 2, 40])
@pytest.mark.parametrize("fewest", [0, 1, 2, 3])
def test_no_translation_is_shorter_than_the_fewest_tokens(fewest: int, width: int) -> None:
    options = SearchOptions(
        beam_size=width, n_best=width, min_tokens=fewest, length_penalty=0.0, barred_ids=SPECIAL
    )
    tables = [random_table(seed) for seed in range(6)]
    found = search(tables, [LIMIT] * 6, options)
    assert all(len(h.ids) >= fewest for hypotheses in found for h in hypotheses)
    if width == 40:  # exhaustive
        for table, hypotheses in zip(tables, found, strict=True):
            allowed = [
                (log_prob, ids)
                for ids, log_prob in all_translations(table, LIMIT, SPECIAL)
                if len(ids) >= fewest
            ]
            assert [h.ids for h in hypotheses] == [ids for _, ids in sorted(allowed, reverse=True)]


def test_no_translation_is_longer_than_the_most_tokens() -> None:
    tables = [random_table(seed) for seed in range(6)]
    found = search(tables, [9] * 6, SearchOptions(max_tokens=2, barred_ids=SPECIAL))
    assert max(len(h.ids) for hypotheses in found for h in hypotheses) == 2


def test_the_fewest_tokens_go_before_what_the_source_s_length_allows() -> None:
    (found,) = search([random_table(1)], [1], SearchOptions(min_tokens=4, barred_ids=SPECIAL))
    assert len(found[0].ids) == 4


@pytest.mark.parametrize(("fewest", "most"), [(-1, None), (3, 2)])
def test_lengths_that_contradict_each_other_are_refused(fewest: int, most: int | None) -> None:
    with pytest.raises(UsageError, match="min-tokens"):
        SearchOptions(min_tokens=fewest, max_tokens=most)


def test_what_follows_no_hypothesis_is_of_no_concern() -> None:
    # The second sentence widens the group, and the rows that the first one has no use for are fed
    # with whatever there is.
    def nowhere_but_in_the_prefix(prefix: Ids) -> list[float]:
        if prefix[:2] != (C, B)[: len(prefix)]:
            return [float("nan")] * VOCAB
        return list(random_table(1)(prefix))

    tables = [nowhere_but_in_the_prefix, random_table(2)]
    prepared = [Source((A,) * 4, (C, B)), Source((A,) * 4)]
    options = SearchOptions(beam_size=3, barred_ids=SPECIAL, max_extra_tokens=0)
    groups = iter([Group(range(2), prepared, TableState(tables), cost=1)])
    found, _ = in_order(decode(TABLES, groups, options))
    alone = Group([0], prepared[:1], TableState(tables[:1]), cost=1)
    assert found == next(decode(TABLES, iter([alone]), options))[1]
    assert found[0].ids[:2] == (C, B)
