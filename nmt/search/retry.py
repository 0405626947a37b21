"""Search again: what repeats itself, runs to its length limit, is empty, or lacks phrases.

A translation repeats itself if it has more loops than its source (`count_loops`). Then, or if it
reaches the longest length without an end, the source is searched again without repeated 4-grams and
with a repetition penalty. The second result is kept if it has less to complain about: no loop is
better than a loop, and among the others, an end is better than the limit. Otherwise the first one
stays. An empty translation is searched again with at least one token.

The check looks at a source and its best hypothesis only, so it does not depend on other sources.
Samples are not checked. They stand for the model's distribution.

Phrases may find no place. A sentence is first searched with all phrases whose tokens fit under its
length limit. If it runs to the limit without them, it is searched again with those that it had
placed by then, and if that fails, too, without any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from nmt.search.engine import Engine, OnProgress, OnStep, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.search.phrases import SentencePhrases

_LOOP_TOKENS = 4
_LOOP_TIMES = 3
# Of 240 lines of noise, 125 are searched again. Without the penalty, 95 then run to the limit, and
# with it, 42.
_PENALTY = 1.2

_FEW_LONG = 0.05
"""Of translations. If more are longer than a first look, searching them twice costs more than it
saves."""


def search_guarded(
    engine: Engine,
    sources: Sequence[Source],
    *,
    on_progress: OnProgress = None,
    on_step: OnStep = None,
) -> tuple[list[SearchResult], set[int]]:
    """Search, with a first look if that pays, and search again for what looks wrong.

    Returns the results, and the numbers of what was searched again; see `Engine.search`.
    """
    options = engine.options
    is_guarded = not options.no_guard and options.sampling is None
    if any(source.phrases for source in sources):
        results = _search_placed(engine, sources, on_progress=on_progress, on_step=on_step)
    elif is_guarded and engine.looks_first and options.beam_size == 1:
        results = _search_with_low_limit(engine, sources, on_progress=on_progress, on_step=on_step)
    else:
        results = engine.search(sources, on_progress=on_progress, on_step=on_step)
    return results, _search_again(engine, sources, results, on_step) if is_guarded else set()


def _search_with_low_limit(
    engine: Engine, sources: Sequence[Source], *, on_progress: OnProgress, on_step: OnStep
) -> list[SearchResult]:
    """Search greedily with a first look.

    A batch takes as many steps as its longest translation, and the longest are those that loop, up
    to the limit. So the first look has a lower limit. What reaches it is searched to the end, but
    not what loops by then, which `_search_again` is likely to replace. If many translations are
    longer than the first look, the engine does without it from then on.
    """
    look = _first_look(engine)
    results = look.search(sources, on_progress=on_progress, on_step=on_step)
    long = [
        number
        for number, (source, result) in enumerate(zip(sources, results, strict=True))
        if _is_cut(look, source, result) and not Faults.of(source, result, engine.options).repeats
    ]
    engine.looks_first = len(long) <= _FEW_LONG * len(sources)
    _search_some(engine, sources, results, long, on_step)
    return results


def _first_look(engine: Engine) -> Engine:
    return engine.with_options(replace(engine.options, is_first_look=True))


def _is_cut(look: Engine, source: Source, result: SearchResult) -> bool:
    """Return whether a first look may have cut a translation off. None looks at phrases."""
    if isinstance(result, str) or source.phrases:
        return False
    return len(result[0].ids) >= max(look.longest(source), len(source.prefix))


def _search_some(
    engine: Engine,
    sources: Sequence[Source],
    results: list[SearchResult],
    numbers: Sequence[int],
    on_step: OnStep,
) -> None:
    """Replace some results by those of another search."""
    found = engine.search([sources[number] for number in numbers], on_step=on_step)
    for number, result in zip(numbers, found, strict=True):
        results[number] = result


def _search_again(
    engine: Engine, sources: Sequence[Source], results: list[SearchResult], on_step: OnStep
) -> set[int]:
    """Search again what has faults, and replace results by better ones; return their numbers."""
    options = engine.options
    faults = {
        number: Faults.of(source, hypotheses, options)
        for number, (source, hypotheses) in enumerate(zip(sources, results, strict=True))
        if not isinstance(hypotheses, str)
    }
    empty = [number for number, fault in faults.items() if fault.is_empty]
    loops = [number for number, fault in faults.items() if fault.repeats or fault.runs_on]
    again = set()
    for numbers, stricter_than in ((empty, _longer), (loops, _careful)):
        if not numbers or (stricter := stricter_than(options)) == options:
            continue
        again.update(numbers)
        guarded = engine.with_options(stricter)
        chosen = [sources[number] for number in numbers]
        second = _search_placed(guarded, chosen, on_progress=None, on_step=on_step)
        if options.beam_size == 1:
            # Some may be those of a first look, and are needed whole to be compared.
            look = _first_look(engine)
            cut = [
                number
                for number, hypotheses in zip(numbers, second, strict=True)
                if Faults.of(sources[number], hypotheses, options).repeats
                and _is_cut(look, sources[number], results[number])
            ]
            _search_some(engine, sources, results, cut, on_step)
            for number in cut:
                faults[number] = Faults.of(sources[number], results[number], options)
        for number, hypotheses in zip(numbers, second, strict=True):
            if Faults.of(sources[number], hypotheses, options) < faults[number]:
                results[number] = hypotheses
    return again


def _longer(options: SearchOptions) -> SearchOptions:
    """Return the options of the second search for what is empty."""
    return replace(options, min_tokens=max(options.min_tokens, 1))


def _careful(options: SearchOptions) -> SearchOptions:
    """Return the options of the second search for loops: at least as strict as these."""
    return replace(
        options,
        no_repeat_ngram=min(options.no_repeat_ngram or _LOOP_TOKENS, _LOOP_TOKENS),
        repetition_penalty=max(options.repetition_penalty, _PENALTY),
    )


class Faults(NamedTuple):
    """What makes a translation suspicious. Fewer are less."""

    is_empty: bool = False  # though the source is not
    repeats: bool = False  # itself, more often than the source
    runs_on: bool = False  # to the length limit

    @classmethod
    def of(cls, source: Source, result: SearchResult, options: SearchOptions) -> Faults:
        """Return the faults of the best hypothesis; a source without any has all.

        A limit that the user sets by `max_tokens`, `min_tokens` or a prefix is no fault.
        """
        if isinstance(result, str):
            return cls(True, True, True)
        ids = result[0].ids
        longest = options.longest(len(source.ids), source.is_in_word)
        least = max(options.min_tokens, len(source.prefix))
        loops = count_loops(ids)
        return cls(
            not ids and longest > 0,
            loops > 0 and loops > count_loops(source.ids),
            least < longest <= len(ids) and longest != options.max_tokens,
        )


def count_loops(ids: Sequence[int]) -> int:
    """Count the places where four tokens or more stand three times in a row.

    Twelve equal tokens are one such place, and so are three equal sentences.
    """
    repeated = len(ids) - len(set(ids))
    if repeated < (_LOOP_TIMES - 1) * _LOOP_TOKENS:  # nearly always: too few for a loop
        return 0
    places = 0
    for size in range(_LOOP_TOKENS, len(ids) // _LOOP_TIMES + 1):
        further = (_LOOP_TIMES - 1) * size  # so many tokens in a row must be those of `size` later
        row = 0
        for token, later in zip(ids, islice(ids, size, None), strict=False):
            row = row + 1 if token == later else 0
            places += row >= further
    return places


def _search_placed(
    engine: Engine, sources: Sequence[Source], *, on_progress: OnProgress, on_step: OnStep
) -> list[SearchResult]:
    """Search for translations with all phrases that can be placed; see `Engine.search`."""
    options = engine.options
    tried = [_with_fitting_phrases(source, options) for source in sources]
    results = engine.search(tried, on_progress=on_progress, on_step=on_step)
    if not any(source.phrases for source in tried):
        return results
    for keeps_placed in (True, False):
        again = []
        for number, hypotheses in enumerate(results):
            if not isinstance(hypotheses, str) and hypotheses[0].score == -math.inf:
                phrases = tried[number].phrases
                placed = SentencePhrases(phrases, options.word_edges).met(hypotheses[0].ids)
                kept = tuple(phrases[phrase] for phrase in sorted(placed)) if keeps_placed else ()
                tried[number] = replace(tried[number], phrases=kept)
                again.append(number)
        if not again:
            break
        _search_some(engine, tried, results, again, on_step)
    return results


def _with_fitting_phrases(source: Source, options: SearchOptions) -> Source:
    """Return the source with those of its phrases, from the first on, that fit under its limit."""
    if not source.phrases:
        return source
    left = options.longest(len(source.ids), source.is_in_word)
    kept = []
    for phrase in source.phrases:
        if phrase.fewest_tokens <= left:
            kept.append(phrase)
            left -= phrase.fewest_tokens
    return replace(source, phrases=tuple(kept))
