"""Translations that must contain phrases, against all translations that there are."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import Ids, NextLogits, all_translations
from tables import SPECIAL, VOCAB, A, B, C, decoded, ids_of, random_table

from nmt.data.words import WordEdges
from nmt.models.model_file import load_model
from nmt.search.engine import SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.search.phrase_banks import in_turns
from nmt.search.phrases import Phrase, SentencePhrases
from nmt.search.retry import search_guarded
from nmt.search.torch_engine import TorchEngine

LIMIT = 4
OPTIONS = SearchOptions(barred_ids=SPECIAL, max_extra_tokens=0)

EVERYTHING = replace(OPTIONS, beam_size=130, n_best=130)
"""With three words, there are 121 translations of at most four."""

INSIDE_C = WordEdges(
    begin_inside=np.array([token == C for token in range(VOCAB)]),
    end_inside=np.array([token >= A for token in range(VOCAB)]),
    end_wide=np.zeros(VOCAB, bool),
    words_follow=np.zeros(VOCAB, bool),
    end_space=np.zeros(VOCAB, bool),
)
"""C goes on with the word before it."""

PHRASES = {
    "a token": (Phrase(((A,),)),),
    "tokens in a row": (Phrase(((A, B, A),)),),
    "two phrases": (Phrase(((A,),)), Phrase(((B, C),))),
    "two that can overlap": (Phrase(((A, B),)), Phrase(((B, A),))),
    "forms": (Phrase(((A, A), (C,))), Phrase(((B, B),))),
    "one form begins another": (Phrase(((A,), (A, B, C))), Phrase(((A, B),))),
    "a form for the start": (Phrase(((A, B),), ((C,),)),),
    "repeated tokens": (Phrase(((A, A, B),)),),
}


def contains(ids: Ids, phrase: Phrase, edges: WordEdges | None = None) -> bool:
    def is_joined(at: int) -> bool:
        if edges is None or not 0 < at < len(ids):
            return False
        return bool(edges.end_inside[ids[at - 1]] and edges.begin_inside[ids[at]])

    return any(
        ids[at : at + len(form)] == form and not is_joined(at) and not is_joined(at + len(form))
        for at in range(len(ids))
        for form in (*phrase.forms, *(phrase.first_forms if at == 0 else ()))
    )


def source(*phrases: Phrase, limit: int = LIMIT, prefix: Ids = ()) -> Source:
    return Source((A,) * limit, prefix, phrases=phrases)


@pytest.mark.parametrize("find_edges", [None, lambda: INSIDE_C])
@pytest.mark.parametrize("phrases", PHRASES.values(), ids=PHRASES)
def test_a_wide_beam_finds_all_translations_with_the_phrases(
    phrases: tuple[Phrase, ...], find_edges: Callable[[], WordEdges] | None
) -> None:
    table, edges = random_table(1), find_edges and find_edges()
    expected = sorted(
        (-log_prob / ((5 + len(ids) + 1) / 6) ** 0.6, ids)
        for ids, log_prob in all_translations(table, LIMIT, SPECIAL)
        if all(contains(ids, phrase, edges) for phrase in phrases)
    )
    assert 1 < len(expected) < 121
    (found,) = decoded([table], [source(*phrases)], replace(EVERYTHING, find_word_edges=find_edges))
    assert ids_of(found) == [ids for _, ids in expected]
    assert [-one.score for one in found] == pytest.approx([cost for cost, _ in expected])


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("phrases", PHRASES.values(), ids=PHRASES)
def test_narrow_beams_end_with_phrases(phrases: tuple[Phrase, ...], width: int) -> None:
    options = replace(OPTIONS, beam_size=width, n_best=width)
    for seed in range(3):
        table = random_table(seed)
        everything = dict(all_translations(table, 6, SPECIAL))
        (found,) = decoded([table], [source(*phrases, limit=6)], options)
        assert found
        for one in found:
            assert all(contains(one.ids, phrase) for phrase in phrases)
            assert one.log_prob == pytest.approx(everything[one.ids], rel=1e-5)
            assert sum(one.token_log_probs) == pytest.approx(one.log_prob)


def test_phrases_are_placed_after_a_prefix_or_by_it() -> None:
    table = random_table(3)
    phrase = Phrase(((B, C),))
    for prefix in ((A,), (B,), (B, C), (C, B, C)):
        expected = {
            ids
            for ids, _ in all_translations(table, LIMIT, SPECIAL, prefix)
            if contains(ids, phrase)
        }
        (found,) = decoded([table], [source(phrase, prefix=prefix)], EVERYTHING)
        assert set(ids_of(found)) == expected


def test_sentences_beside_each_other_make_no_difference() -> None:
    phrases = [(), *PHRASES.values(), ()]
    tables: list[NextLogits] = [random_table(seed) for seed in range(len(phrases))]
    sources = [source(*own, limit=3 + seed) for seed, own in enumerate(phrases)]
    options = replace(OPTIONS, beam_size=3, n_best=3)
    together = decoded(tables, sources, options)
    alone = [decoded([t], [one], options)[0] for t, one in zip(tables, sources, strict=True)]
    assert together == alone


def test_texts_that_are_equal_count_once() -> None:
    def texts(many: Sequence[Sequence[int]]) -> list[str]:
        return ["".join("aac"[token - A] for token in ids) for ids in many]

    options = replace(OPTIONS, beam_size=5, n_best=5, decode=texts)
    (found,) = decoded([random_table(2)], [source(Phrase(((C, A),)), limit=20)], options)
    assert len(found) == len(set(texts(ids_of(found)))) == 5


def test_what_is_wanted_may_repeat_itself() -> None:
    options = replace(OPTIONS, no_repeat_ngram=1)
    (found,) = decoded([random_table(2)], [source(Phrase(((A, A),)))], options)
    assert contains(found[0].ids, Phrase(((A, A),)))


def test_without_room_the_best_beginning_is_returned() -> None:
    def never_a(_prefix: Ids) -> list[float]:
        return [-math.inf if token == A else 0.0 for token in range(VOCAB)]

    (found,) = decoded([never_a], [source(Phrase(((A,),)), Phrase(((B, C),)))], OPTIONS)
    assert [one.score for one in found] == [-math.inf]
    assert contains(found[0].ids, Phrase(((B, C),)))


def test_not_a_number_is_told_from_no_room() -> None:
    nothing = [[math.nan] * VOCAB]
    assert decoded([lambda _prefix: nothing[0]], [source(Phrase(((A,),)))], OPTIONS) == [[]]


# ------------------------------------------------------------------------------ its parts


def test_banks_take_turns_from_the_last_one_on() -> None:
    log_probs = np.array([[-1.0, -3.0, -2.0, -math.inf, -5.0, -4.0, -4.0]])
    banks = np.array([[0, 1, 0, 2, 1, 0, 0]])
    # Bank 1: -3 -5; bank 0: -1 -2 -4 -4; bank 2 has nothing.
    assert in_turns(log_probs, banks, banks == 2, 2).tolist() == [[1, 0, 4, 2, 5, 6, 3]]
    assert in_turns(log_probs, banks, banks == 1, 2).tolist() == [[1, 4, 0, 2, 5, 6, 3]]


def test_tokens_of_a_word_begin_and_end_inside_it() -> None:
    tokens = ["▁Hund", "e", "▁", ".", "<0xC3>", "<0x2E>", "猫", "▁(", "ब", "\u094d", "7"]
    edges = WordEdges.of_pieces(tokens)
    begin = {token for token, inside in zip(tokens, edges.begin_inside, strict=True) if inside}
    end = {token for token, inside in zip(tokens, edges.end_inside, strict=True) if inside}
    assert begin == {"e", "<0xC3>", "ब", "\u094d", "7"}
    assert end == {"▁Hund", *begin}
    assert [token for token, wide in zip(tokens, edges.end_wide, strict=True) if wide] == ["猫"]
    follow = {token for token, one in zip(tokens, edges.words_follow, strict=True) if one}
    assert follow == {"▁", "猫", "▁(", "<0x2E>"}


SIGNS = WordEdges.of_pieces(["", "", "", "", "▁a", "b", "▁+", "+", ",", "▁(", "猫"])
"""Tokens 4 to 10."""


@pytest.mark.parametrize(
    ("phrase", "ids", "is_there"),
    [
        (Phrase(((4, 7),), is_word=True), (4, 7), True),  # a+
        (Phrase(((4, 7),), is_word=True), (4, 7, 8), True),
        (Phrase(((4, 7),), is_word=True), (4, 7, 5), False),  # a+b
        (Phrase(((6,),)), (6, 5), True),  # a sign that is no word
        (Phrase(((10,),), is_word=True), (10, 5), True),  # of a script without spaces
        (Phrase(((4,),), (), ((5,),)), (5,), True),
        (Phrase(((4,),), (), ((5,),)), (9, 5), True),  # (b
        (Phrase(((4,),), (), ((5,),)), (10, 5), True),
        (Phrase(((4,),), (), ((5,),)), (8, 5), False),  # ,b
        (Phrase(((4,),), (), ((7,),)), (5, 7), False),  # b+
        (Phrase(((7,),)), (5, 7), True),
    ],
)
def test_signs_decide_whether_a_phrase_is_there(phrase: Phrase, ids: Ids, is_there: bool) -> None:
    assert SentencePhrases([phrase], SIGNS).met(ids) == ({0} if is_there else set())


# ------------------------------------------------------------------------------ the engine


def engine_of(model_file: Path, options: SearchOptions) -> TorchEngine:
    model = load_model(model_file)[0].eval()
    return TorchEngine(model, options, device=torch.device("cpu"), batch_tokens=64)


REAL = SearchOptions(
    beam_size=3, n_best=2, max_extra_tokens=12, no_guard=True, barred_ids=(0, 1, 2)
)


def bests(found: list[SearchResult]) -> list[Ids]:
    """Return the best translation of each source, which must be a finished one."""
    best = [one[0] for one in found if not isinstance(one, str)]
    assert len(best) == len(found)
    assert all(one.score > -math.inf for one in best)
    return [one.ids for one in best]


def test_what_does_not_fit_is_left_out_and_the_line_translated(model_file: Path) -> None:
    engine = engine_of(model_file, replace(REAL, max_tokens=3))
    first, long, last = Phrase(((77, 78),)), Phrase(((79, 80, 81),)), Phrase(((82,),))
    sources = [Source((300,), phrases=(first, long, last)), Source((300,))]
    found, free = bests(search_guarded(engine, sources)[0])
    assert contains(found, first)
    assert contains(found, last)
    sources = [Source((300,), phrases=(Phrase(((77,) * 4,)),))]
    (found,) = bests(search_guarded(engine, sources)[0])
    assert found == free


def test_what_search_cannot_place_is_left_out_on_a_second_try(model_file: Path) -> None:
    # In two tokens, both phrases would be one word.
    inside, none = np.isin(np.arange(400), [77, 78]), np.zeros(400, bool)
    joined = WordEdges(inside, inside, none, none, none)
    options = replace(REAL, max_tokens=2, find_word_edges=lambda: joined)
    first, second = Phrase(((77,),)), Phrase(((78,),))
    sources = [Source((300,), phrases=(first, second))]
    (found,) = bests(search_guarded(engine_of(model_file, options), sources)[0])
    assert contains(found, first, joined) != contains(found, second, joined)
