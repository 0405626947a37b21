"""Repeated text: duplicates within train, and lines of train that overlap with valid or test.

Duplicates are pairs whose lines have the same NFC. Workers hash pairs, and the main process, which
gets the blocks back in their order, looks the hashes up in `SeenHashes`. That is a table of 64-bit
hashes with open addressing, in numpy, and takes 10.7 bytes per pair (a Python set takes about 70),
so 36 million pairs take 0.4 GB. The chance that any two different pairs among n collide is
n^2 / 2^65: one in 28,000 for that corpus. Near duplicates have the same hash after `normalized`,
and a table of their own. For example, with `--duplicates near`:

    line  pair                      hash, `duplicate`  hash, `near_duplicate`
    1     12 cats | 12 Katzen       a                  f  (0cats | 0katzen)
    2     12 cats | 12 Katzen       a                  f
    3     7 Cats! | 7 Katzen!       b                  f

1. A worker hashes all three pairs by both rules.
2. The main process adds a, a, b to the table of `duplicate`. The second a is not new, so line 2 is
   dropped, and line 3 is left.
3. The main process adds f, f, of lines 1 and 3, to the table of `near_duplicate`. The second f is
   not new, so line 3 is dropped.
4. Line 1 goes into shard 0. When the shard is complete, the hashes that were new, a and b, are
   written to `progress/duplicate-00000.bin`, and f to `progress/near_duplicate-00000.bin`. b is
   among them, because a later pair with the hash b repeats line 3. A run that resumes after shard 0
   first adds these files to its tables. So it drops whatever repeats line 1 in the rest of the
   text, as the stopped run would have.

`OverlapKeys` finds lines of valid and test, whatever their case, punctuation and spacing. Two lines
are the same if they have the same letters, marks and digits after Unicode's compatibility
decomposition (NFKD) and case folding. Folding every line of train would cost more than all other
rules together, so a cheap filter comes first. Each character has a number, the sum of the numbers
of the characters that it folds to. Equal lines have equal sums, so only lines whose sum occurs in
valid or test are folded.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.data.composition import compose_lines
from nmt.data.epochs import mix
from nmt.prepare import characters
from nmt.prepare.block import Hashes, Mask, TextSide
from nmt.prepare.cleaning_options import OVERLAP_FREE_LETTERS, WIDE_LETTER

Numbers = npt.NDArray[np.uint32]

_EMPTY = np.uint64(0)
_SLOTS_PER_HASH = 4 / 3
# Odd, so that no information is lost; the fractional parts of the golden ratio and of pi.
_SRC_FACTOR, _TGT_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x243F6A8885A308D3)


def hash_lines(lines: Sequence[str]) -> Hashes:
    """Return a 64-bit hash of each line in NFC, without white space at its edges: (lines,).

    A hash is never 0, which marks an empty slot of `SeenHashes`. The hashes are the same on every
    machine: 8 bytes of BLAKE2b, read little-endian.
    """
    blake2b, lines = hashlib.blake2b, compose_lines(lines)
    digests = b"".join([blake2b(s.strip().encode(), digest_size=8).digest() for s in lines])
    return np.maximum(np.frombuffer(digests, "<u8").astype(np.uint64), np.uint64(1))


def normalized(lines: Sequence[str]) -> list[str]:
    """Return lines without what near duplicates differ in.

    Letters and marks are folded as in `OverlapKeys`, a run of digits becomes one 0, and all else is
    left out.
    """
    codes = np.frombuffer(_fold("\n".join(lines)).encode("utf-32-le"), "<u4").copy()
    codes[(characters.plain_classes()[codes] & characters.NUMBER) > 0] = ord("0")
    codes = codes[_counts()[codes] | (codes == ord("\n"))]
    repeats = np.zeros(len(codes), np.bool_)
    repeats[1:] = (codes[1:] == ord("0")) & (codes[:-1] == ord("0"))
    text: str = codes[~repeats].tobytes().decode("utf-32-le")
    return text.split("\n")[: len(lines)]


def hash_pairs(src: Hashes, tgt: Hashes) -> Hashes:
    """Return a 64-bit hash of each pair from the hashes of its sides; never 0: (pairs,)."""
    return np.maximum(src * _SRC_FACTOR + tgt * _TGT_FACTOR, np.uint64(1))


class SeenHashes:
    """The set of hashes seen so far, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        self._table: Hashes = np.zeros(int(capacity * _SLOTS_PER_HASH) + 2, np.uint64)

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add hashes in their order; return which of them were new: (len(hashes),)."""
        distinct, first = np.unique(hashes, return_index=True)
        is_new = np.zeros(len(hashes), np.bool_)
        is_new[first] = self._insert(distinct)
        return is_new

    def _insert(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Insert distinct hashes; return which of them were new."""
        size = np.uint64(len(self._table))
        is_new = np.zeros(len(hashes), np.bool_)
        waiting = np.arange(len(hashes))  # indices of hashes that have not found their slot yet
        slots = hashes % size
        while len(waiting):
            mine = hashes[waiting]
            free = self._table[slots] == _EMPTY
            # If several hashes want the same free slot, the last one gets it and the others go on:
            # of 5 and 9 in a table of 4, 9 gets slot 1, and then 5 looks at slot 2.
            self._table[slots[free]] = mine[free]
            at_home = self._table[slots] == mine
            is_new[waiting[free & at_home]] = True
            waiting = waiting[~at_home]
            slots = (slots[~at_home] + np.uint64(1)) % size
        return is_new


@dataclass(frozen=True)
class OverlapKeys:
    """The keys that recognise lines of one side of valid and test."""

    sums: Numbers  # (lines,) sums of their characters' numbers, sorted
    keys: frozenset[bytes]

    @classmethod
    def from_side(cls, side: TextSide) -> OverlapKeys:
        """Return the keys of the lines that are long enough to count."""
        long_enough = np.flatnonzero(side.sums(_weights()) >= OVERLAP_FREE_LETTERS)
        keys = frozenset(_key(side.lines[index]) for index in long_enough)
        return cls(np.unique(side.sums(_numbers())[long_enough]), keys)

    @classmethod
    def join(cls, parts: Sequence[OverlapKeys]) -> OverlapKeys:
        """Return the keys of all parts, of which there may be none."""
        sums = np.concatenate([np.zeros(0, np.uint32), *(part.sums for part in parts)])
        return cls(np.unique(sums), frozenset().union(*(part.keys for part in parts)))

    def found_in(self, side: TextSide) -> Mask:
        if not len(self.sums):
            return np.zeros(len(side.lines), np.bool_)
        sums = side.sums(_numbers())
        # np.isin would sort both anew for each block.
        matches: Mask = self.sums.take(np.searchsorted(self.sums, sums), mode="clip") == sums
        for index in np.flatnonzero(matches).tolist():
            matches[index] = _key(side.lines[index]) in self.keys
        return matches


def pair_keys(src: TextSide, tgt: TextSide) -> list[frozenset[str]]:
    """Return what recognises each pair, whichever side is the source: (pairs,).

    Unlike `OverlapKeys`, these keys tell pairs of any length, and with every character of a line in
    NFC except white space at its edges.
    """
    pairs = zip(compose_lines(src.lines), compose_lines(tgt.lines), strict=True)
    return [frozenset((one.strip(), other.strip())) for one, other in pairs]


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())


def _key(line: str) -> bytes:
    codes = np.frombuffer(_fold(line).encode("utf-32-le"), "<u4")
    return hashlib.blake2b(codes[_counts()[codes]].tobytes(), digest_size=16).digest()


@functools.cache
def _counts() -> Mask:
    """Return whether each code point is a letter, a mark or a digit: (0x110000,)."""
    classes = characters.plain_classes()
    are_numbers = (classes & characters.NUMBER) > 0
    counts: Mask = are_numbers | ((classes & (characters.SPACE | characters.SIGN)) == 0)
    return counts


@functools.cache
def _weights() -> Numbers:
    """Return the letters that each code point counts as: (0x110000,)."""
    weights = _counts().astype(np.uint32)
    for script in characters.WIDE_SCRIPTS:
        for first, last in characters.letters_of(script):
            weights[first : last + 1] *= WIDE_LETTER
    return weights


@functools.cache
def _numbers() -> Numbers:
    """Return the number of each code point: (0x110000,)."""
    counts = _counts()
    hashes = mix(np.arange(len(counts), dtype=np.uint64)).astype(np.uint32) * counts
    numbers = hashes.copy()
    letters = np.arange(characters.LETTERS_END, dtype="<u4")
    letters[ord("\n")] = letters[0xD800:0xE000] = ord(" ")  # surrogates are no text
    # Fold all characters in one call, which is fast; line feeds keep them apart.
    text = letters.tobytes().decode("utf-32-le")
    folded = _fold("\n".join(text)).split("\n")
    is_bad = np.zeros(len(folded), np.bool_)
    numbers[: len(folded)] = TextSide(folded, is_bad, characters.plain_classes()).sums(hashes)
    return numbers
