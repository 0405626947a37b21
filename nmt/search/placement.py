"""Phrases that find no place: their sentences are searched again without them.

A sentence is first searched with all phrases whose tokens fit under its length limit. If it runs to
the limit without them, it is searched again with those that it had placed by then, and if that
fails, too, without any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.search.engine import Engine, Ids, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.search.phrases import Phrase, SentencePhrases


def search_placed(
    engine: Engine,
    sources: Sequence[Source],
    *,
    on_progress: Callable[[int], object] | None = None,
    on_step: Callable[[], object] | None = None,
) -> list[SearchResult]:
    """Search for translations with all phrases that can be placed; see `Engine.search`."""
    tried = [_fitting(source, engine.options) for source in sources]
    found = engine.search(tried, on_progress=on_progress, on_step=on_step)
    for keeps_placed in (True, False):
        again = []
        for number, results in enumerate(found):
            if not isinstance(results, str) and results[0].score == -math.inf:
                source, ids = tried[number], results[0].ids
                phrases = _placed(source, ids, engine.options) if keeps_placed else ()
                tried[number] = replace(source, phrases=phrases)
                again.append(number)
        second = engine.search([tried[number] for number in again], on_step=on_step)
        for number, results in zip(again, second, strict=True):
            found[number] = results
    return found


def _fitting(source: Source, options: SearchOptions) -> Source:
    """Return the source with those of its phrases, from the first on, that fit under its limit."""
    if not source.phrases:
        return source
    left = options.longest(len(source.ids), is_in_word=source.is_in_word)
    kept = []
    for phrase in source.phrases:
        if phrase.fewest_tokens <= left:
            kept.append(phrase)
            left -= phrase.fewest_tokens
    return replace(source, phrases=tuple(kept))


def _placed(source: Source, ids: Ids, options: SearchOptions) -> tuple[Phrase, ...]:
    """Return the phrases that a translation contains."""
    met = SentencePhrases(source.phrases, options.word_edges).met(ids)
    return tuple(source.phrases[number] for number in sorted(met))
