"""Beam search against exhaustive search, tables written by hand, and the model itself."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from reference import Ids, NextLogits, TableState, all_translations, greedy
from tables import (
    BOS,
    EOS,
    PAD,
    SPECIAL,
    TABLES,
    VOCAB,
    A,
    B,
    C,
    ids_of,
    in_order,
    random_table,
    search,
    sources,
    written,
)
from tiny_models import SOURCES, begin, tiny

from nmt.models.base import TranslationModel
from nmt.search.beam_search import Group, decode
from nmt.search.engine import Source
from nmt.search.options import SearchOptions


def wu(length: int, alpha: float) -> float:
    return float(((5 + length) / 6) ** alpha)


def power(length: int, alpha: float) -> float:
    return float(length**alpha)


# -------------------------------------------------------------------------- exhaustive


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize(("form", "penalty"), [("wu", wu), ("power", power)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_beam_is_exhaustive_search(
    seed: int, form: str, penalty: Callable[[int, float], float], alpha: float
) -> None:
    limit = 3
    # Three words: 1 + 3 + 9 + 27 = 40 translations, which the beam can hold. Barred tokens lend
    # their probability to none.
    table = random_table(seed)
    everything = all_translations(table, limit, SPECIAL)
    assert len(everything) == 40
    expected = sorted(
        ((log_prob / penalty(len(ids) + 1, alpha), log_prob, ids) for ids, log_prob in everything),
        reverse=True,
    )
    for n_best in (1, 5, 60):  # fewer if fewer exist
        options = SearchOptions(
            beam_size=60,
            n_best=n_best,
            length_penalty=alpha,
            length_penalty_form=form,
            barred_ids=SPECIAL,
        )
        (found,) = search([table], [limit], options)
        assert ids_of(found) == [ids for _, _, ids in expected[:n_best]]
        for hypothesis, (score, log_prob, _) in zip(found, expected, strict=False):
            assert hypothesis.score == pytest.approx(score, rel=1e-5)
            assert hypothesis.log_prob == pytest.approx(log_prob, rel=1e-5)


# --------------------------------------------------------------------- tables by hand


def test_a_beam_finds_what_greedy_search_misses() -> None:
    table = written(
        {(): {A: 0.5, B: 0.4, EOS: 0.1}, (A,): {EOS: 0.4, A: 0.3, B: 0.3}, (B,): {EOS: 0.9, A: 0.1}}
    )
    # With at most one word: A eos 0.5 * 0.4 = 0.20, B eos 0.4 * 0.9 = 0.36, eos alone 0.10.
    (greedy_found,) = search([table], [1], SearchOptions(beam_size=1))
    assert ids_of(greedy_found) == [(A,)]
    assert greedy_found[0].log_prob == pytest.approx(math.log(0.20))
    (found,) = search([table], [1], SearchOptions(beam_size=2))
    assert ids_of(found) == [(B,)]
    assert found[0].log_prob == pytest.approx(math.log(0.36))
    # ln 0.36 = -1.02165; ((5 + 2) / 6)^0.6 = 1.09690; their quotient is -0.93140.
    assert found[0].score == pytest.approx(-0.93140, abs=1e-5)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_eos_is_forced_at_the_limit_of_each_sentence_and_counts(width: int) -> None:
    def never_ending(_prefix: Ids) -> Sequence[float]:
        return [math.log(p) for p in (1e-9, 1e-9, 1e-9, 0.0001, 0.9799, 0.01, 0.01)]

    limits = [3, 0, 7, 1]
    options = SearchOptions(beam_size=width, n_best=width, length_penalty=5.0, barred_ids=SPECIAL)
    for limit, found in zip(limits, search([never_ending] * 4, limits, options), strict=True):
        # The strong penalty favours the longest: `limit` times 0.9799, then eos with 0.0001.
        assert found[0].ids == (A,) * limit
        log_prob = limit * math.log(0.9799) + math.log(0.0001)
        assert found[0].log_prob == pytest.approx(log_prob, rel=1e-5)
        assert all(len(hypothesis.ids) <= limit for hypothesis in found)


def test_an_active_hypothesis_that_could_still_win_is_waited_for() -> None:
    table = written(
        {(): {EOS: 0.5, A: 0.5}, (A,): {A: 1.0}, (A, A): {A: 1.0}, (A, A, A): {EOS: 1.0}}
    )
    # eos: ln 0.5 at length 1; A A A eos: ln 0.5 at length 4, which any penalty favours.
    (found,) = search([table], [10], SearchOptions(beam_size=2, length_penalty=0.6))
    assert ids_of(found) == [(A, A, A)]
    assert found[0].score == pytest.approx(math.log(0.5) / (9 / 6) ** 0.6)


# -------------------------------------------------------------------------------- ties

MANY = 40
"""Enough tokens that torch.topk, left alone, takes others than the lowest of equal ones."""


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_ties_are_ordered_by_hypothesis_token_and_time(alpha: float) -> None:
    options = SearchOptions(
        beam_size=2, n_best=2, length_penalty=alpha, length_penalty_form="power", barred_ids=SPECIAL
    )
    (found,) = search([lambda _prefix: [0.0] * MANY], [5], options)
    # First step: eos 4 5 6 are the best 2W = 4; eos, among the first W = 2, is finished; 4 and 5
    # go on. Second step: 4 eos, 4 4, 4 5, 4 6 are the best; 4 eos is finished, and that makes two.
    assert ids_of(found) == [(), (4,)]
    assert found[1].log_prob == pytest.approx(2 * math.log(1 / MANY))
    # log(1 / V) / 1 = 2 log(1 / V) / 2: with power and alpha 1 all translations are equal.
    assert (found[0].score == found[1].score) is (alpha == 1.0)


@pytest.mark.parametrize(
    "tables",
    [
        [random_table(seed) for seed in range(24)],
        [lambda _prefix: [0.0, 0.0, 0.0, -9.0, *[0.0] * (MANY - 4)]],  # the lowest of equal ones
    ],
)
def test_beam_size_one_is_greedy_search(tables: list[NextLogits]) -> None:
    found = search(tables, [9] * len(tables), SearchOptions(beam_size=1, barred_ids=SPECIAL))
    assert [h.ids for (h,) in found] == [greedy(table, 9, SPECIAL) for table in tables]


# ------------------------------------------------------------------------- equal texts


def text_of(ids: Sequence[int]) -> str:
    """A and B are the same text."""
    return "".join({A: "a", B: "a", C: "c"}[token] for token in ids)


def texts_of(ids: Sequence[Sequence[int]]) -> list[str]:
    return [text_of(one) for one in ids]


DISTINCT = SearchOptions(beam_size=4, n_best=4, barred_ids=SPECIAL, decode=texts_of)


@pytest.mark.parametrize("n_best", [1, 5, 60])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wide_beam_finds_the_best_of_each_text(seed: int, n_best: int) -> None:
    table = random_table(seed)
    best: dict[str, tuple[float, Ids]] = {}
    for ids, log_prob in all_translations(table, 3, SPECIAL):
        best[text_of(ids)] = max(
            best.get(text_of(ids), (-math.inf, ())), (log_prob / wu(len(ids) + 1, 0.6), ids)
        )
    assert len(best) < 40  # of all translations
    (found,) = search([table], [3], replace(DISTINCT, beam_size=60, n_best=n_best))
    assert ids_of(found) == [ids for _, ids in sorted(best.values(), reverse=True)][:n_best]


def test_a_narrow_beam_goes_on_until_there_are_enough_texts() -> None:
    shorter = 0
    for seed in range(30):
        (found,) = search([random_table(seed)], [9], DISTINCT)
        texts = texts_of(ids_of(found))
        assert len(set(texts)) == len(texts) == 4
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        (free,) = search([random_table(seed)], [9], replace(DISTINCT, decode=None))
        assert found[0] == free[0]
        shorter += len(set(texts_of(ids_of(free)))) < 4
    assert shorter > 3  # what was there before


# ----------------------------------------------------------------------------- batches


def ends_after(words: int) -> NextLogits:
    return lambda prefix: [0.0] * 3 + [9.0 if len(prefix) >= words else -9.0, 3.0, 0.0, 0.0]


@pytest.mark.parametrize("width", [1, 2])
def test_finished_sentences_leave_the_batch(width: int) -> None:
    lengths = [2, 0, 3, 0]
    options = SearchOptions(beam_size=width, length_penalty=0.0, barred_ids=SPECIAL)
    state = TableState([ends_after(words) for words in lengths])
    group = Group(range(4), sources([9] * 4), state, cost_per_sentence=1)
    found = in_order(decode(TABLES, iter([group]), options))
    assert [len(hypotheses[0].ids) for hypotheses in found] == lengths
    # All four at first, by one hypothesis each; two after their first eos; one at the end.
    assert state.rows_of_steps == [4, 2 * width, 2 * width, 1 * width]


def test_new_sentences_take_the_place_of_finished_ones() -> None:
    lengths = [1, 5, 1, 1, 5, 1, 1, 1]
    states = [TableState([ends_after(w) for w in lengths[at : at + 2]]) for at in (0, 2, 4, 6)]
    joined: list[int] = []

    def groups() -> Iterator[Group]:
        for number, state in enumerate(states):
            joined.append(len(states[0].rows_of_steps))
            yield Group([2 * number, 2 * number + 1], sources([9, 9]), state, cost_per_sentence=10)

    options = SearchOptions(beam_size=1, barred_ids=SPECIAL)
    found = dict(decode(TABLES, groups(), options, budget=40))
    assert [len(found[number][0].ids) for number in range(8)] == lengths
    # Two groups fill the budget. After two steps one sentence is left of them, so that the third
    # group joins; two steps later its short sentence is done, and the fourth joins.
    assert joined == [0, 0, 2, 4]


# ------------------------------------------------------------------------ a real model


def forced(model: TranslationModel, source: list[int]) -> NextLogits:
    """The model's logits by running it over the whole prefix, without any cache of its own."""

    def next_logits(prefix: Ids) -> Sequence[float]:
        with torch.inference_mode():
            state = begin(model, [source])
            for token in (BOS, *prefix):
                logits = model.project(model.step([state], torch.tensor([token])))
        values: list[float] = logits[0].tolist()
        return values

    return cache(next_logits)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("kind", ["transformer", "conv_seq2seq", "rnn_attention"])
def test_search_with_a_model_is_that_with_its_table(kind: str, width: int) -> None:
    # Caches, reordering and dropping of sentences change nothing, and a score is that of forced
    # decoding: looked up afresh it is the same.
    model = tiny(kind)
    options = SearchOptions(beam_size=width, n_best=width, max_tokens=8, barred_ids=SPECIAL)
    with torch.inference_mode():
        groups = (
            Group(
                numbers,
                [Source(tuple(SOURCES[number])) for number in numbers],
                begin(model, [SOURCES[number] for number in numbers]),
                cost_per_sentence=1,
            )
            for numbers in ([0, 1], [2])  # the third joins when one of the first two is done
        )
        found = in_order(decode(model, groups, options, budget=2))
    tables = [forced(model, source) for source in SOURCES]
    for hypotheses, expected in zip(found, search(tables, [8] * 3, options), strict=True):
        assert ids_of(hypotheses) == ids_of(expected)
        assert [h.log_prob for h in hypotheses] == pytest.approx([h.log_prob for h in expected])
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected])


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(("token", "limit"), [(A, 5), (PAD, 5), (A, 0)])
def test_a_sentence_without_numbers_spoils_no_others(bad: float, token: int, limit: int) -> None:
    def diverged(_prefix: Ids) -> Sequence[float]:
        return [bad if t == token else 0.0 for t in range(VOCAB)]

    def diverging(prefix: Ids) -> Sequence[float]:
        return diverged(prefix) if len(prefix) > 1 else [-9.0] * 3 + [0.0, 1.0, 1.0, 1.0]

    table, options = random_table(1), SearchOptions(barred_ids=SPECIAL)
    found = search([table, diverged, diverging], [5, limit, 5], options)
    assert found == [*search([table], [5], options), [], []]
