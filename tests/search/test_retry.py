"""The guard searches again what repeats itself or runs to its limit, and keeps the better one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tables import A, B, C

from nmt.search.engine import NOTHING_FOUND, Engine, Hypothesis, Ids, OnStep, SearchResult, Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.retry import count_loops, search_guarded

TEXT = (5, 6, 7, 8, 9)
OTHER = (5, 6, 8)
LOOP = (5,) * 12
LIMIT = tuple(range(10, 18))  # of a source of five tokens, with three more
LONG = Source((1,) * 20)  # which has room for loops, but is one itself
PLAIN = Source(tuple(range(20)))
OPTIONS = SearchOptions(max_extra_tokens=3)


class Written(Engine):
    """Finds what is written down: for each source without the guard, and with it."""

    def __init__(
        self,
        written: Mapping[Source, tuple[Ids | None, Ids | None]],
        options: SearchOptions = OPTIONS,
    ) -> None:
        super().__init__(options, 1_000)
        self.written = written
        # Also of engines with other options.
        self.searches: list[tuple[int, float, set[Source]]] = []

    def find(
        self, sources: Sequence[Source], order: Sequence[int], budget: int, on_step: OnStep
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        assert budget > 0
        options = self.options
        searched = {sources[number] for number in order}
        self.searches.append((options.no_repeat_ngram, options.repetition_penalty, searched))
        for number in order:
            if on_step is not None:
                on_step()
            is_second = options.repetition_penalty > 1 or options.min_tokens > 0
            ids = self.written[sources[number]][is_second]
            if options.is_first_look and ids is not None:
                ids = ids[: self.longest(sources[number])]
            found = [] if ids is None else [Hypothesis(ids, -1.0, -1.0), Hypothesis(LOOP, -2, -2)]
            yield number, found


def ids_of(found: Sequence[SearchResult]) -> list[Ids | str]:
    return [one if isinstance(one, str) else one[0].ids for one in found]


SHORT = Source((1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    ("source", "first", "second", "kept"),
    [
        (PLAIN, LOOP, TEXT, TEXT),
        (PLAIN, LOOP, LOOP[1:] * 2, LOOP),  # still a loop
        (PLAIN, LOOP, None, LOOP),  # nothing is left
        (SHORT, LIMIT, TEXT, TEXT),
        (SHORT, LIMIT, LIMIT[::-1], LIMIT),
        (SHORT, LIMIT, LOOP[:8], LIMIT),  # at the limit, too
        (Source((1,) * 9), LOOP, LIMIT, LIMIT),  # a loop at the limit; neither
        (Source((1,) * 5), LOOP, LIMIT, LIMIT),  # a loop at the limit; only at the limit
        (LONG, (5,) * 21, TEXT, TEXT),  # more of a loop than the source
    ],
)
def test_what_is_suspicious_is_searched_again(
    source: Source, first: Ids, second: Ids | None, kept: Ids
) -> None:
    engine = Written({source: (first, second)})
    found, again = search_guarded(engine, [source])
    assert ids_of(found) == [kept]
    assert again == {0}
    assert engine.searches == [(0, 1.0, {source}), (4, 1.2, {source})]
    assert engine.options == OPTIONS


@pytest.mark.parametrize(
    ("source", "first", "options"),
    [
        (PLAIN, TEXT, OPTIONS),
        (PLAIN, (), replace(OPTIONS, max_tokens=0)),
        (LONG, (5,) * 20, OPTIONS),  # no more of a loop than the source
        (SHORT, LIMIT[:-1], OPTIONS),
        (SHORT, LIMIT, replace(OPTIONS, max_tokens=8)),  # the user's limit
        (SHORT, LIMIT, replace(OPTIONS, min_tokens=8)),
        (replace(SHORT, prefix=LIMIT), LIMIT, OPTIONS),
        (replace(SHORT, prefix=(*LIMIT, 1)), (*LIMIT, 1), OPTIONS),
        (PLAIN, LOOP, replace(OPTIONS, no_guard=True)),
        # Nothing is stricter.
        (PLAIN, LOOP, replace(OPTIONS, no_repeat_ngram=3, repetition_penalty=1.3)),
        (PLAIN, LOOP, replace(OPTIONS, sampling=Sampling())),
        (PLAIN, None, OPTIONS),  # no number: not better with the guard
    ],
)
def test_all_else_is_found_once(source: Source, first: Ids | None, options: SearchOptions) -> None:
    found, again = search_guarded(Written({source: (first, first)}, options), [source])
    assert ids_of(found) == [NOTHING_FOUND if first is None else first]
    assert not again


def test_what_is_empty_is_searched_again_with_a_token_and_no_penalty() -> None:
    engine = Written({PLAIN: ((), TEXT), SHORT: ((), LIMIT), LONG: (LOOP * 2, OTHER)})
    found, again = search_guarded(engine, [PLAIN, SHORT, LONG])
    assert ids_of(found) == [TEXT, LIMIT, OTHER]
    assert again == {0, 1, 2}
    assert engine.searches[1:] == [(0, 1.0, {PLAIN, SHORT}), (4, 1.2, {LONG})]
    search_guarded(engine.with_options(replace(OPTIONS, no_guard=True)), [PLAIN])
    assert len(engine.searches) == 4


@pytest.mark.parametrize(
    ("size", "penalty", "careful_size", "careful_penalty"),
    [(5, 1.0, 4, 1.2), (3, 1.0, 3, 1.2), (0, 1.1, 4, 1.2), (2, 1.1, 2, 1.2), (9, 1.0, 4, 1.2)],
)
def test_the_second_search_is_at_least_as_strict(
    size: int, penalty: float, careful_size: int, careful_penalty: float
) -> None:
    options = replace(OPTIONS, no_repeat_ngram=size, repetition_penalty=penalty)
    engine = Written({PLAIN: (LOOP, LOOP)}, options)
    search_guarded(engine, [PLAIN])
    assert engine.searches == [(size, penalty, {PLAIN}), (careful_size, careful_penalty, {PLAIN})]


def test_only_what_is_suspicious_is_searched_again_and_progress_counts_once() -> None:
    engine = Written({PLAIN: (LOOP, TEXT), SHORT: (OTHER, LOOP), LONG: (LOOP, OTHER)})
    done, steps = list[int](), list[None]()
    found, again = search_guarded(
        engine,
        [SHORT, PLAIN, LONG, PLAIN],
        on_progress=done.append,
        on_step=lambda: steps.append(None),
    )
    assert ids_of(found) == [OTHER, TEXT, LOOP, TEXT]
    assert again == {1, 3}
    assert engine.searches == [(0, 1.0, {SHORT, PLAIN, LONG}), (4, 1.2, {PLAIN})]
    assert sum(done) == 4
    assert len(steps) == 3 + 1


# ------------------------------------------------------------------------------ first looks

GREEDY = SearchOptions(beam_size=1, max_extra_tokens=50)
LONGER = tuple(range(30, 60))  # than a first look at SHORT, which goes up to 15 tokens
ENDLESS = (5,) * 55  # which is its limit
LOOKS_LONG = (4,) * 40  # of which the loop has an end


@pytest.mark.parametrize(
    ("first", "second", "kept", "searches"),
    [
        (TEXT, TEXT, TEXT, 1),
        (LONGER[:14], TEXT, LONGER[:14], 1),
        (LONGER[:15], TEXT, LONGER[:15], 2),  # it may be longer: the look, and the whole
        (LONGER, TEXT, LONGER, 2),
        (ENDLESS, TEXT, TEXT, 2),  # the look, and the second search; never the whole loop
        (ENDLESS, LONGER + LONGER[:25], LONGER + LONGER[:25], 2),  # at the limit without a loop
        (ENDLESS, LOOKS_LONG, LOOKS_LONG, 3),  # a loop, but it ends: the whole is worse
        (LOOKS_LONG, ENDLESS, LOOKS_LONG, 3),  # the whole is better
        (ENDLESS, None, ENDLESS, 3),
        ((*TEXT, *LONGER[:10], *(5,) * 12), TEXT, TEXT, 3),  # loops after the look
        ((), TEXT, TEXT, 2),
    ],
)
def test_a_first_look_finds_what_a_whole_search_finds(
    first: Ids, second: Ids | None, kept: Ids, searches: int
) -> None:
    engine = Written({SHORT: (first, second)}, GREEDY)
    assert ids_of(search_guarded(engine, [SHORT])[0]) == [kept]
    assert len([one for one in engine.searches if one[2]]) == searches
    whole = Written({SHORT: (first, second)}, GREEDY)
    whole.looks_first = False
    assert search_guarded(whole, [SHORT])[0] == search_guarded(engine, [SHORT])[0]


def test_where_many_translations_are_long_there_is_no_first_look() -> None:
    texts = {Source((number, 1, 2, 3, 4)): (LONGER, TEXT) for number in range(4)}
    engine = Written(texts, GREEDY)
    search_guarded(engine, list(texts))
    assert len(engine.searches) == 2
    search_guarded(engine, list(texts))
    assert len(engine.searches) == 3


@pytest.mark.parametrize(
    "options",
    [
        replace(GREEDY, beam_size=2),
        replace(GREEDY, no_guard=True),
        replace(GREEDY, sampling=Sampling()),
    ],
)
def test_beams_samples_and_unguarded_searches_have_no_first_look(options: SearchOptions) -> None:
    engine = Written({SHORT: (LONGER, TEXT)}, options)
    search_guarded(engine, [SHORT])
    assert len(engine.searches) == 1


# ----------------------------------------------------------------------------------- loops


def test_loops_are_counted_as_by_their_definition() -> None:
    random = np.random.default_rng(1)
    seen = set()
    for _ in range(300):
        block = random.integers(4, 7, random.integers(1, 7)).tolist()
        ids = [*random.integers(4, 7, 3).tolist(), *block * int(random.integers(1, 9)), 3]
        expected = sum(
            ids[start : start + size] * 3 == ids[start : start + 3 * size]
            for size in range(4, len(ids) // 3 + 1)
            for start in range(len(ids) - 3 * size + 1)
        )
        assert count_loops(ids) == expected
        seen.add(expected)
    assert len(seen) > 5
    # Four tokens three times in a row: A B C A is not there.
    assert [count_loops(ids) for ids in ([], [4] * 11, [4] * 12, [A, B, C] * 4)] == [0, 0, 1, 0]
