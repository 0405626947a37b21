"""The guard: what repeats itself, runs to its length limit or is empty is searched again.

A translation repeats itself if it has more loops than its source (`count_loops`). Then, or if it
reaches the longest length without an end, the source is searched again without repeated 4-grams and
with a repetition penalty. The second result is kept if it has less to complain about: no loop is
better than a loop, and among the others, an end is better than the limit. Otherwise the first one
stays. An empty translation is searched again with at least one token.

The check looks at a source and its best hypothesis only, so it does not depend on other sources.
Samples are not checked. They stand for the model's distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nmt.search.engine import Engine, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.search.placement import search_placed
from nmt.search.repetition import LOOP_TOKENS, count_loops

# Of 240 lines of noise, 125 are searched again. Without the penalty, 95 then run to the limit, and
# with it, 42.
_PENALTY = 1.2


@dataclass(frozen=True, order=True)
class Faults:
    """What makes a translation suspicious. Fewer are less."""

    is_empty: bool = False  # though the source is not
    repeats: bool = False  # itself, more often than the source
    runs_on: bool = False  # to the length limit

    @classmethod
    def of(cls, source: Source, found: SearchResult, options: SearchOptions) -> Faults:
        """Return the faults of the best hypothesis; a source without any has all.

        A limit that the user sets by `max_tokens`, `min_tokens` or a prefix is no fault.
        """
        if isinstance(found, str):
            return cls(True, True, True)
        ids = found[0].ids
        longest = options.longest(len(source.ids), is_in_word=source.is_in_word)
        least = max(options.min_tokens, len(source.prefix))
        loops = count_loops(ids)
        return cls(
            not ids and longest > 0,
            loops > 0 and loops > count_loops(source.ids),
            least < longest <= len(ids) and longest != options.max_tokens,
        )


def search_guarded(
    engine: Engine,
    sources: Sequence[Source],
    *,
    on_progress: Callable[[int], object] | None = None,
    on_step: Callable[[], object] | None = None,
) -> tuple[list[SearchResult], set[int]]:
    """Search, and search again what has faults; see `Engine.search`.

    Returns:
        The results, and the numbers of the sources that were searched twice.
    """
    found = search_placed(engine, sources, on_progress=on_progress, on_step=on_step)
    options = engine.options
    if options.no_guard or options.sampling is not None:
        return found, set()
    faults = {
        number: Faults.of(source, results, options)
        for number, (source, results) in enumerate(zip(sources, found, strict=True))
        if not isinstance(results, str)
    }
    empty = [number for number, fault in faults.items() if fault.is_empty]
    loops = [number for number, fault in faults.items() if fault.repeats or fault.runs_on]
    again = set()
    for numbers, stricter_than in ((empty, _longer), (loops, _careful)):
        if not numbers or (stricter := stricter_than(options)) == options:
            continue
        again.update(numbers)
        guarded = engine.with_options(stricter)
        second = search_placed(guarded, [sources[number] for number in numbers], on_step=on_step)
        for number, results in zip(numbers, second, strict=True):
            if Faults.of(sources[number], results, options) < faults[number]:
                found[number] = results
    return found, again


def _longer(options: SearchOptions) -> SearchOptions:
    """Return the options of the second search for what is empty."""
    return replace(options, min_tokens=max(options.min_tokens, 1))


def _careful(options: SearchOptions) -> SearchOptions:
    """Return the options of the second search for loops: at least as strict as these."""
    return replace(
        options,
        no_repeat_ngram=min(options.no_repeat_ngram or LOOP_TOKENS, LOOP_TOKENS),
        repetition_penalty=max(options.repetition_penalty, _PENALTY),
    )
