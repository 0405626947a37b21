"""Training text that repeats valid or test, whatever its case, punctuation and spacing.

Two lines are the same if their letters, marks and digits are, by Unicode's compatibility
decomposition (that of NFKC) and case folding. Doing that to every line of train would cost more
than all other rules together. So each character has a number, which is the sum of those that it
folds to, and a line is folded only if its sum is that of a line of valid or test: equal lines have
equal sums, and others hardly ever, unless they have the same letters in another order.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.data.characters import LETTERS_END, NUMBER, SIGN, SPACE, letters_of, plain_classes
from nmt.data.decoding import Mask, TextSide
from nmt.data.permutation import mix
from nmt.data.rules import OVERLAP_FREE_LETTERS, WIDE_LETTER

Numbers = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class OverlapKeys:
    """What one side of valid and test is recognised by."""

    sums: Numbers  # (lines,) of their characters' numbers: sorted
    keys: frozenset[bytes]

    @classmethod
    def of(cls, side: TextSide) -> OverlapKeys:
        """Return those of the lines that are long enough to count."""
        long_enough = np.flatnonzero(side.sums(_weights()) >= OVERLAP_FREE_LETTERS)
        keys = frozenset(_key(side.lines[at]) for at in long_enough)
        return cls(np.unique(side.sums(_numbers())[long_enough]), keys)

    @classmethod
    def join(cls, parts: Sequence[OverlapKeys]) -> OverlapKeys:
        """Return the keys of all parts; none of no parts."""
        sums = np.concatenate([np.zeros(0, np.uint32), *(part.sums for part in parts)])
        return cls(np.unique(sums), frozenset().union(*(part.keys for part in parts)))

    def found_in(self, side: TextSide) -> Mask:
        """Return which lines are among those that the keys are of: (lines,)."""
        if not len(self.sums):
            return np.zeros(len(side.lines), np.bool_)
        sums = side.sums(_numbers())
        # np.isin would sort both anew for each block.
        found: Mask = self.sums.take(np.searchsorted(self.sums, sums), mode="clip") == sums
        for at in np.flatnonzero(found).tolist():
            found[at] = _key(side.lines[at]) in self.keys
        return found


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())


def _key(line: str) -> bytes:
    codes = np.frombuffer(_fold(line).encode("utf-32-le"), "<u4")
    return hashlib.blake2b(codes[_counts()[codes]].tobytes(), digest_size=16).digest()


@functools.cache
def _counts() -> Mask:
    """Return whether each code point is a letter, a mark or a digit: (0x110000,)."""
    classes = plain_classes()
    counts: Mask = ((classes & NUMBER) > 0) | ((classes & (SPACE | SIGN)) == 0)
    return counts


@functools.cache
def _weights() -> Numbers:
    """Return how much each code point adds to the length of a line: (0x110000,)."""
    weights = _counts().astype(np.uint32)
    for script in ("Hani", "Kana", "Hang"):
        for first, last in letters_of(script):
            weights[first : last + 1] *= WIDE_LETTER
    return weights


@functools.cache
def _numbers() -> Numbers:
    """Return the number of each code point: (0x110000,)."""
    counts = _counts()
    own = mix(np.arange(len(counts), dtype=np.uint64)).astype(np.uint32) * counts
    numbers = own.copy()
    characters = np.arange(LETTERS_END, dtype="<u4")
    characters[ord("\n")] = characters[0xD800:0xE000] = ord(" ")  # surrogates are no text
    # All at once, which is quick: a line feed keeps each apart from its neighbours.
    text = characters.tobytes().decode("utf-32-le")
    folded = _fold("\n".join(text)).split("\n")
    numbers[:LETTERS_END] = TextSide(folded, np.zeros(LETTERS_END, np.bool_), plain_classes()).sums(
        own
    )
    return numbers
