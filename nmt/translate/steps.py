"""The steps of a translation: their interface, what they pass on, and those of search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from nmt.markup.breaks import MarkedLines
from nmt.markup.tags import Marked
from nmt.search.engine import Engine, SearchResult
from nmt.search.retry import search_again, search_placed
from nmt.translate.output import Translation
from nmt.translate.segment import Segment

Spans = Sequence[tuple[int, int]]
"""Starts and ends in a text, in order."""


@dataclass
class LinesUnderWay:
    """Lines on their way to their translations. Each step reads what it needs, and adds to it."""

    texts: Sequence[str]  # without tags, of each line and of each branch of its ICU messages
    prefixes: Sequence[str] = ()  # what the translation of each begins with; or none
    contexts: Sequence[Sequence[str]] = ()  # the lines before each; or none
    on_progress: Callable[[int], object] | None = None  # called with lines or segments just done
    on_step: Callable[[], object] | None = None  # called before each step of the decoder
    are_units: bool = False  # whether they are of a document

    marked: Sequence[MarkedLines] = ()  # each line with its tags, if they were taken out
    kept: Sequence[Spans] = ()  # parts of each that must stay as they are; or none
    without_signs: dict[int, Marked] = field(default_factory=dict)  # texts that had unknown ones
    segments: Sequence[Sequence[Segment]] = ()  # of each
    fell_back: Collection[int] = ()  # numbers of those that could not be translated in context

    searched: Sequence[Segment] = ()  # those that are neither copied nor translated yet
    results: list[SearchResult] = field(default_factory=list)  # of these
    guarded: set[int] = field(default_factory=set)  # numbers of those that were searched again

    translations: dict[int, Translation] = field(default_factory=dict)  # by number of the line


Step = Callable[[LinesUnderWay], None]
"""A step of a translation: it brings all lines on."""


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
    lines.results = find(sources, on_progress=lines.on_progress, on_step=lines.on_step)


def search_faulty(engine: Engine, lines: LinesUnderWay) -> None:
    """Search again for what repeats itself, runs to its length limit or is empty."""
    sources = [segment.source for segment in lines.searched]
    lines.guarded |= search_again(engine, sources, lines.results, on_step=lines.on_step)
