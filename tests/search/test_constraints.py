"""Constraints on prefixes, lengths and repetition, against all translations."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from reference import NextLogits, TableState, all_translations, log_softmax
from tables import (
    SPECIAL,
    TABLES,
    UNK,
    VOCAB,
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

from nmt.search.beam_search import Group, decode
from nmt.search.engine import Ids, Source
from nmt.search.options import Sampling, SearchOptions

PREFIXES: list[Ids] = [(), (A,), (B, C), (C, C, A), (UNK, A, B, C, A)]
"""The last one is longer than the limits, and has a token that is barred elsewhere."""


def test_what_is_from_within_a_very_long_word_has_few_tokens_more() -> None:
    for extra, longest in ((50, [114, 74]), (3, [67, 67])):
        options = SearchOptions(max_extra_tokens=extra)
        assert [options.longest(64, is_in_word=one) for one in (False, True)] == longest


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
    group = Group([0, 1], [Source((A,) * 9, (A, B, A))] * 2, state, cost_per_sentence=1)
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


# ------------------------------------------------------------------------- repetition

PLAIN = SearchOptions(length_penalty=0.0, barred_ids=SPECIAL)


def has_repeat(ids: Ids, size: int) -> bool:
    ngrams = [ids[start : start + size] for start in range(len(ids) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


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
    drawn = [h.ids for best in search(tables, limits, options) for h in best]
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
@pytest.mark.parametrize(("size", "penalty"), [(0, 1.0), (2, 1.0), (1, 1.0), (0, 1.5), (2, 1.5)])
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
    groups = (
        Group([n], [sources(limits)[n]], TableState([tables[n]]), cost_per_sentence=1)
        for n in range(8)
    )
    assert in_order(decode(TABLES, groups, options, budget=3)) == [
        search([table], [limit], options)[0] for table, limit in zip(tables, limits, strict=True)
    ]
