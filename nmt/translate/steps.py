"""The steps of a translation: their interface, what they pass on, and those of search.

What a step takes out of lines before the search, such as tags, comes back in a later one. The first
step leaves what does that in `restore`, and only this knows what was taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from nmt.search.engine import Engine, SearchResult
from nmt.search.retry import can_look_first, search_again, search_placed, search_soon
from nmt.translate.output import Translation
from nmt.translate.segment import Segment

Spans = Sequence[tuple[int, int]]  # starts and ends in a text, in order


@dataclass
class LinesUnderWay:
    """Lines on their way to their translations. Each step reads what it needs, and adds to it."""

    texts: Sequence[str]  # of each line, without tags
    prefixes: Sequence[str] = ()  # what the translation of each begins with; or none
    contexts: Sequence[Sequence[str]] = ()  # the lines before each; or none
    on_progress: Callable[[int], object] | None = None  # called with lines or segments just done
    on_step: Callable[[], object] | None = None  # called before each step of the decoder
    are_units: bool = False  # whether they are of a document

    segments: Sequence[Sequence[Segment]] = ()  # of each
    searched: Sequence[Segment] = ()  # those that are neither copied nor translated yet
    results: list[SearchResult] = field(default_factory=list)  # of these
    guarded: set[int] = field(default_factory=set)  # numbers of those that were searched again

    translations: dict[int, Translation] = field(default_factory=dict)  # by number of the line
    restore: Callable[[], None] | None = None  # puts back what was taken out of lines


Step = Callable[[LinesUnderWay], None]  # a step of a translation: it brings all lines on


def put_back(lines: LinesUnderWay) -> None:
    """Put into translations what a step before has taken out of lines."""
    assert lines.restore is not None
    lines.restore()


def search(engine: Engine, lines: LinesUnderWay) -> None:
    """Search for the translations of what is neither copied nor translated yet."""
    segments = [
        line for number, line in enumerate(lines.segments) if number not in lines.translations
    ]
    lines.searched = [one for one in chain.from_iterable(segments) if one.copy is None]
    sources = [segment.source for segment in lines.searched]
    if lines.on_progress is not None:
        everything = chain.from_iterable(lines.segments)
        copies = sum(segment.copy is not None for segment in everything)
        # Blank lines are done.
        lines.on_progress(lines.segments.count([]) + len(lines.translations) + copies)
    find = engine.search
    if any(source.phrases for source in sources):
        find = partial(search_placed, engine)
    elif can_look_first(engine):
        find = partial(search_soon, engine)
    lines.results = find(sources, on_progress=lines.on_progress, on_step=lines.on_step)


def search_faulty(engine: Engine, lines: LinesUnderWay) -> None:
    """Search again for what repeats itself, runs to its length limit or is empty."""
    sources = [segment.source for segment in lines.searched]
    lines.guarded |= search_again(engine, sources, lines.results, on_step=lines.on_step)
