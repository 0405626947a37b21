"""Units of text, in which a line is compared with its translation, and the links between them.

A unit is a word, a single sign, a character of a script without spaces, or a piece that must stay
as it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise

from nmt.data.words import is_mark, unit_pattern
from nmt.markup.kept_pieces import piece_pattern
from nmt.markup.tags import STANDING, Marked

Span = tuple[int, int]

Link = tuple[int, int, int, int]
"""Start and end of a token in the source, and start and end of one that it is translated to."""
Links = Sequence[Link]


def target_units(text: str) -> list[Span]:
    """Return start and end of each unit of a translation."""
    units = []
    last = 0
    for piece in piece_pattern().finditer(text):
        units += [unit.span() for unit in unit_pattern().finditer(text, last, piece.start())]
        units.append(piece.span())
        last = piece.end()
    return units + [unit.span() for unit in unit_pattern().finditer(text, last)]


def source_units(marked: Marked) -> list[Span]:
    """Return start and end of each unit of the source. Tags end a unit, also inside a word."""
    cuts, pieces, units = {0, len(marked.text)}, {}, []
    for node in marked.root.walk():
        cuts |= {node.start, node.end}
        if node.piece_kind not in ("", "element", STANDING):
            pieces[node.start] = node.end
    for start, end in pairwise(sorted(cuts)):
        if pieces.get(start) == end:
            units.append((start, end))
        else:
            units += [unit.span() for unit in unit_pattern().finditer(marked.text, start, end)]
    return units


def first_from(units: Sequence[Span], position: int) -> int:
    """Return the number of the first unit that begins at a character or after it."""
    return bisect_left(units, (position,))  # (5,) is before (5, 9)


def label_units(source: Sequence[Span], target: Sequence[Span], links: Links) -> list[int]:
    """Return the unit of the source that each unit of the translation comes from; -1: none."""
    votes: list[Counter[int]] = [Counter() for _ in target]
    for src_start, src_end, tgt_start, tgt_end in links:
        overlaps = _overlap(source, src_start, src_end)
        if not overlaps:
            continue
        best = max(overlaps, key=lambda overlap: (overlap[1], -overlap[0]))[0]
        for unit, size in _overlap(target, tgt_start, tgt_end):
            votes[unit][best] += size
    return [counter.most_common(1)[0][0] if counter else -1 for counter in votes]


def aligned_units(
    marked: Marked, translation: str, links: Links
) -> tuple[list[Span], list[Span], list[int]]:
    """Return the units of the source and of its translation, and what each of these comes from.

    That is a unit of the source; -1: none. Units that come from words with tags inside are parted.
    A copy is parted as its word is, so `H<sub>2</sub>O` comes back. A tag of the first letter gets
    the first letter of the translation. Any other tag gets the whole word if nothing else comes
    from its text, and so does the one that most tags are around.
    """
    source, target = source_units(marked), target_units(translation)
    labels = label_units(source, target, links)
    parts_of = _parted_words(marked, source)
    if not parts_of:
        return source, target, labels
    copies: dict[str, deque[range]] = defaultdict(deque)
    for parts in dict.fromkeys(parts_of.values()):
        copies[_text_of(marked.text, source, parts)].append(parts)
    depths = _depths(marked, source)
    used = set[range]()
    labelled = set(labels)
    parted: list[tuple[Span, int]] = []
    for unit, label in zip(target, labels, strict=True):
        word = parts_of.get(label)
        text = translation[slice(*unit)]
        own = "" if label < 0 else _text_of(marked.text, source, word or range(label, label + 1))
        if text in copies and own != text:
            word = next((parts for parts in copies[text] if parts not in used), word)
        if word is None:
            parted.append((unit, label))
            continue
        is_first = word not in used
        used.add(word)
        start = source[word[0]][0]
        if _text_of(marked.text, source, word) == text:
            moved = unit[0] - start
            parted += [((source[n][0] + moved, source[n][1] + moved), n) for n in word]
            continue
        deepest = max(word, key=lambda part: depths[part])
        inside = marked.text[start + 1 : source[deepest][1]]
        is_initial = deepest == word[0] and all(map(is_mark, inside))
        if depths[deepest] <= 0:
            parted.append((unit, label))
        elif is_initial and marked.text[start].isalpha():
            end = unit[0] + 1
            while end < unit[1] and is_mark(translation[end]):
                end += 1
            if is_first:
                parted.append(((unit[0], end), deepest))
            rest = (end if is_first else unit[0], unit[1])
            parted += [(rest, word[1])] if rest[0] < rest[1] else []
        else:
            parted.append((unit, label if deepest in labelled else deepest))
    return source, [unit for unit, _ in parted], [label for _, label in parted]


def _parted_words(marked: Marked, source: Sequence[Span]) -> dict[int, range]:
    """Return all units of its word for each unit that is a part of one."""
    if len(source) < 2 or all(one[1] < other[0] for one, other in pairwise(source)):
        return {}
    parts_of = {}
    for start, end in target_units(marked.text):
        parts = range(first_from(source, start), first_from(source, end))
        if len(parts) > 1 and source[parts[0]][0] == start:
            parts_of.update(dict.fromkeys(parts, parts))
    return parts_of


def _text_of(text: str, source: Sequence[Span], parts: range) -> str:
    return text[source[parts[0]][0] : source[parts[-1]][1]]


def _depths(marked: Marked, source: Sequence[Span]) -> list[int]:
    """Return how many tags are around each unit; less than 0 if it stays as it is."""
    changes = [0] * (len(source) + 1)
    for node in islice(marked.root.walk(), 1, None):
        tags = -len(source) if node.piece_kind else 1
        changes[first_from(source, node.start)] += tags
        changes[first_from(source, node.end)] -= tags
    return list(accumulate(changes))[:-1]


def link_weakly(source: Sequence[Span], target: Sequence[Span], links: Links) -> dict[int, int]:
    """Return a unit of the translation for units of the source, by links of their tokens."""
    targets: dict[int, int] = {}
    for src_start, src_end, tgt_start, tgt_end in links:
        units = _overlap(target, tgt_start, tgt_end)
        for unit, _ in _overlap(source, src_start, src_end):
            if units:
                targets.setdefault(unit, units[0][0])
    return targets


def _overlap(units: Sequence[Span], start: int, end: int) -> list[tuple[int, int]]:
    """Return the units with characters in a span, and how many."""
    overlaps = []
    for unit in range(max(0, first_from(units, start + 1) - 1), first_from(units, end)):
        size = min(end, units[unit][1]) - max(start, units[unit][0])
        if size > 0:
            overlaps.append((unit, size))
    return overlaps
