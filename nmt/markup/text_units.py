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
from nmt.markup.kept_pieces import PIECE
from nmt.markup.tags import STANDING, Marked

Span = tuple[int, int]

Link = tuple[int, int, int, int]
"""Start and end of a token in the source, and start and end of one that it is translated to."""


def target_units(text: str) -> list[Span]:
    """Return start and end of each unit of a translation."""
    units = []
    last = 0
    for piece in PIECE.finditer(text):
        units += [unit.span() for unit in unit_pattern().finditer(text, last, piece.start())]
        units.append(piece.span())
        last = piece.end()
    return units + [unit.span() for unit in unit_pattern().finditer(text, last)]


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
    units = []
    ordered = sorted(cuts)
    for start, end in pairwise(ordered):
        if pieces.get(start) == end:
            units.append((start, end))
        else:
            units += [unit.span() for unit in unit_pattern().finditer(marked.text, start, end)]
    return units


def label_units(source: Sequence[Span], target: Sequence[Span], links: Sequence[Link]) -> list[int]:
    """Return the unit of the source that each unit of the translation comes from; -1: none."""
    src_starts, tgt_starts = ([start for start, _ in units] for units in (source, target))
    votes: list[Counter[int]] = [Counter() for _ in target]
    for src_start, src_end, tgt_start, tgt_end in links:
        overlaps = _overlap(source, src_starts, src_start, src_end)
        if not overlaps:
            continue
        best = max(overlaps, key=lambda overlap: (overlap[1], -overlap[0]))[0]
        for unit, size in _overlap(target, tgt_starts, tgt_start, tgt_end):
            votes[unit][best] += size
    return [counter.most_common(1)[0][0] if counter else -1 for counter in votes]


def link_weakly(
    source: Sequence[Span], target: Sequence[Span], links: Sequence[Link]
) -> dict[int, int]:
    """Return a unit of the translation for units of the source, by links of their tokens."""
    src_starts, tgt_starts = ([start for start, _ in units] for units in (source, target))
    targets: dict[int, int] = {}
    for src_start, src_end, tgt_start, tgt_end in links:
        units = _overlap(target, tgt_starts, tgt_start, tgt_end)
        for unit, _ in _overlap(source, src_starts, src_start, src_end):
            if units:
                targets.setdefault(unit, units[0][0])
    return targets


def _overlap(
    units: Sequence[Span], starts: Sequence[int], start: int, end: int
) -> list[tuple[int, int]]:
    """Return the units with characters in a span, and how many."""
    overlaps = []
    for unit in range(max(0, bisect_right(starts, start) - 1), bisect_left(starts, end)):
        size = min(end, units[unit][1]) - max(start, units[unit][0])
        if size > 0:
            overlaps.append((unit, size))
    return overlaps
