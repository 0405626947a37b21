"""Units of text, in which a line is compared with its translation, and the links between them.

A unit is a word, a single sign, a character of a script without spaces, or a piece that must stay
as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from nmt.data.words import unit_pattern
from nmt.markup.tags import PIECE, STANDING, Marked

Span = tuple[int, int]

Link = tuple[int, int, int, int]
"""Start and end of a token in the source, and start and end of one that it is translated to."""


def target_units(text: str) -> list[Span]:
    """Return start and end of each unit of a translation."""
    found = []
    last = 0
    for piece in PIECE.finditer(text):
        found += [unit.span() for unit in unit_pattern().finditer(text, last, piece.start())]
        found.append(piece.span())
        last = piece.end()
    return found + [unit.span() for unit in unit_pattern().finditer(text, last)]


def source_units(marked: Marked) -> list[Span]:
    """Return start and end of each unit of the source. Tags end a unit, also inside a word."""
    cuts, pieces = {0, len(marked.text)}, {}
    waiting = [marked.root]
    while waiting:
        node = waiting.pop()
        cuts |= {node.start, node.end}
        if node.kept not in ("", "element", STANDING):
            pieces[node.start] = node.end
        waiting += node.children
    found = []
    ordered = sorted(cuts)
    for start, end in pairwise(ordered):
        if pieces.get(start) == end:
            found.append((start, end))
        else:
            found += [unit.span() for unit in unit_pattern().finditer(marked.text, start, end)]
    return found


def label_units(source: Sequence[Span], target: Sequence[Span], links: Sequence[Link]) -> list[int]:
    """Return the unit of the source that each unit of the translation comes from; -1: none."""
    src_starts, tgt_starts = ([start for start, _ in units] for units in (source, target))
    votes: list[Counter[int]] = [Counter() for _ in target]
    for src_start, src_end, tgt_start, tgt_end in links:
        own = _overlap(source, src_starts, src_start, src_end)
        if not own:
            continue
        best = max(own, key=lambda one: (one[1], -one[0]))[0]
        for unit, size in _overlap(target, tgt_starts, tgt_start, tgt_end):
            votes[unit][best] += size
    return [one.most_common(1)[0][0] if one else -1 for one in votes]


def link_weakly(
    source: Sequence[Span], target: Sequence[Span], links: Sequence[Link]
) -> dict[int, int]:
    """Return a unit of the translation for units of the source, by links of their tokens."""
    src_starts, tgt_starts = ([start for start, _ in units] for units in (source, target))
    found: dict[int, int] = {}
    for src_start, src_end, tgt_start, tgt_end in links:
        units = _overlap(target, tgt_starts, tgt_start, tgt_end)
        for unit, _ in _overlap(source, src_starts, src_start, src_end):
            if units:
                found.setdefault(unit, units[0][0])
    return found


def _overlap(
    units: Sequence[Span], starts: Sequence[int], start: int, end: int
) -> list[tuple[int, int]]:
    """Return the units with characters in a span, and how many."""
    found = []
    for unit in range(max(0, bisect_right(starts, start) - 1), bisect_left(starts, end)):
        size = min(end, units[unit][1]) - max(start, units[unit][0])
        if size > 0:
            found.append((unit, size))
    return found
