"""Translations that come some lines too late or too early, by the words that they share.

A word, or two in a row, that only one line of each text has tells where that line stands in the
other text. In a good translation, nearly all of them stand in the same line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from nmt.data.words import unit_pattern

_BLOCK = 5_000  # lines that are looked at together
_FEWEST = 5  # shifted lines, more than others in the same stretch: so many are no chance


def find_shift(lines: Sequence[str], others: Sequence[str]) -> tuple[int, int] | None:
    """Find where lines begin to come later, or earlier, than their likes in others: (N,) each.

    Returns the line number in the others, from 1, and how many lines later; None if nowhere.
    """
    for start in range(0, len(lines), _BLOCK):
        places, block = (_places(text[start : start + _BLOCK]) for text in (lines, others))
        votes = dict[int, Counter[int]]()
        for unit, row in block.items():
            if row >= 0 <= places.get(unit, -1):
                votes.setdefault(row, Counter())[places[unit] - row] += 1
        shifts = [(row, _likeliest(votes[row])) for row in sorted(votes)]
        counts = Counter(shift for _, shift in shifts if shift).items()
        begins = [(_begin(shifts, shift), shift) for shift, count in counts if count >= _FEWEST]
        if found := min(((row, shift) for row, shift in begins if row is not None), default=None):
            return start + found[0] + 1, found[1]
    return None


def _places(lines: Sequence[str]) -> dict[str, int]:
    """Return the row of each unit, and of two in a row; -1 if several lines have it."""
    places = dict[str, int]()
    for row, line in enumerate(lines):
        units = unit_pattern().findall(line)
        for unit in {*units, *map(" ".join, pairwise(units))}:
            places[unit] = -1 if unit in places else row
    return places


def _likeliest(votes: Counter[int]) -> int:
    return max(votes, key=lambda shift: (votes[shift], -abs(shift)))


def _begin(shifts: Sequence[tuple[int, int]], shift: int) -> int | None:
    """Return the first row of the stretch in which lines with this shift outnumber others most."""
    most, more, begin, best = _FEWEST - 1, 0, 0, None
    for row, its in shifts:
        begin = begin if more else row
        more = max(0, more + (1 if its == shift else -1))
        if more > most:
            most, best = more, begin
    return best
