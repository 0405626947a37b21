"""Repeated text: duplicates within train, lines of train that overlap with valid or test, and how
near they come to them.

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

`HeldOutLines` tells how near lines of train come to lines of valid and test: which share of the
character 4-grams of the shorter line the other one has, or that both are the same. Here 4-grams
are of letters and digits after NFKC, in lower case. `Tom is ill.` has tomi, omis, misi, isil,
sill, and `Is Tom ill?` has isto, stom, tomi, omil, mill, so their overlap is 1/5. It holds only
lines of valid and test, so its memory does not grow with train. There are two ways to compare:

- Small text is compared line by line. Each 4-gram leads to the lines of valid and test that have
  it.
- In large text that would cost more than all other rules together. So lines are only compared if
  they share runs of four words, or are the same. A run's number is the difference of two running
  sums over the text, which `OverlapKeys` needs anyway. In scripts without spaces, each character
  counts as a word. The shortest lines of each block, which longer ones may hold, and a few others
  are compared with all. For 600 lines of Europarl and 200,000 of train, this finds 273 of 280 near
  copies.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.data.composition import compose_lines
from nmt.data.epochs import mix
from nmt.prepare import characters
from nmt.prepare.block import Counts, Hashes, Mask, Overlaps, Rows, TextSide
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


OVERLAP_UNIT = 10_000
SAME = OVERLAP_UNIT + 1  # the overlap of lines that have the same letters and digits
NEAR_COPY = int(0.85 * OVERLAP_UNIT)
_GRAM, _GRAM_BITS = 4, 18
"""Of 4-grams, as bits of a hash. A line has few, so they hardly ever collide."""
_RUN, _RUN_BITS = 4, 21
"""Of runs of words, likewise. Those that collide are compared in vain."""
_MOST_LINES_A_RUN = 2  # more common ones would lead to too many lines
_LEAST_RUNS = 0.34  # share of the runs of a near copy that stay whole
_WIDE_LETTERS = 0x2E80  # code points from which on a letter counts as a word
_SMALL_LINES, _SMALL_WORK = 250_000, 1e9
"""Text is small if train has at most so many lines, and so many comparisons are needed of lines
and 4-grams: they take up to 5 seconds a side."""
_SHORTEST, _SAMPLE = 64, 512
"""In a block of large text, so many of the shortest lines are compared with all, and of the others
one of so many."""
_CHUNK = 1 << 18  # pairs of lines that are compared at a time
_FACTOR = np.uint32(0x9E3779B1)


@dataclass(frozen=True)
class HeldOutLines:
    """The lines of one language in valid and test, to be compared with train."""

    lines: Sequence[str]
    pairs: Rows  # (lines,) the number of each line's pair in valid and test
    sizes: Counts  # (lines,) how many 4-grams they have
    postings: Rows  # (grams,) lines in the order of the hashes of their 4-grams
    starts: Rows  # (2^18 + 1,) where the postings of each hash begin
    same: Mapping[str, list[int]]  # the lines that are the same without what does not count
    runs: _Runs | None  # None: all lines of train are compared

    @classmethod
    def index(
        cls, lines: Sequence[str], pairs: Rows, *, train_lines: int, train_bytes: int
    ) -> HeldOutLines:
        """Return the index of some lines, for train of this size in the same language."""
        folded, grams = _grams(lines)
        rows, hashes = grams >> _GRAM_BITS, grams & ((1 << _GRAM_BITS) - 1)
        counts = np.bincount(hashes, minlength=1 << _GRAM_BITS)
        same: dict[str, list[int]] = {}
        for row, line in enumerate(folded):
            if line:
                same.setdefault(line, []).append(row)
        lines_a_gram = float(counts @ counts) / max(1, len(grams))
        work = train_bytes * lines_a_gram + train_lines * len(lines)
        is_small = train_lines <= _SMALL_LINES and work <= _SMALL_WORK
        return cls(
            lines,
            pairs,
            np.bincount(rows, minlength=len(lines)),
            rows[np.argsort(hashes, kind="stable")],
            np.concatenate([[0], np.cumsum(counts)]),
            same,
            None if is_small else _Runs.index(lines),
        )

    def compare(self, side: TextSide, rows: Rows) -> tuple[Overlaps, Overlaps]:
        """Compare some lines of train with all these lines.

        Returns the largest overlap of each line of train, (rows,), and of each of these: (lines,).
        """
        of_rows = np.zeros(len(side.lines), np.int16)
        of_lines = np.zeros(len(self.sizes), np.int16)
        compared = rows
        if self.runs is not None:
            which, lines = self.runs.candidates(side, rows)
            overlaps = line_overlaps(
                [side.lines[row] for row in which.tolist()],
                [self.lines[line] for line in lines.tolist()],
            )
            np.maximum.at(of_rows, which, overlaps)
            np.maximum.at(of_lines, lines, overlaps)
            by_length = rows[np.argsort(side.lengths[rows], kind="stable")]
            compared = np.concatenate([by_length[:_SHORTEST], by_length[_SHORTEST::_SAMPLE]])
        step = max(1, _CHUNK // len(self.sizes))
        for chunk in (compared[n : n + step] for n in range(0, len(compared), step)):
            table = self._table([side.lines[row] for row in chunk.tolist()])
            of_rows[chunk] = np.maximum(of_rows[chunk], table.max(1))
            np.maximum(of_lines, table.max(0), out=of_lines)
        return of_rows[rows], of_lines

    def _table(self, lines: Sequence[str]) -> Overlaps:
        """Return the overlap of each of some lines with each of these: (len(lines), lines)."""
        folded, grams = _grams(lines)
        rows, hashes = grams >> _GRAM_BITS, grams & ((1 << _GRAM_BITS) - 1)
        firsts, shape = self.starts[hashes], (len(lines), len(self.sizes))
        which, places = _ranges(firsts, self.starts[hashes + 1] - firsts)
        pairs = rows[which] * shape[1] + self.postings[places]
        shared = np.bincount(pairs, minlength=shape[0] * shape[1])
        sizes = np.minimum.outer(np.bincount(rows, minlength=len(lines)), self.sizes)
        # An integer division would take five times as long.
        table = (OVERLAP_UNIT * shared.reshape(shape) / np.maximum(sizes, 1)).astype(np.int16)
        for row, line in enumerate(folded):
            table[row, self.same.get(line, [])] = SAME
        return table


@dataclass(frozen=True)
class _Runs:
    """The runs of words of held-out lines, each with the few lines that have it."""

    are_known: Mask  # (2^21,) by the hash of a run
    starts: npt.NDArray[np.int32]  # (2^21 + 1,) where the lines of each hash begin
    lines: Rows  # (runs,)
    counts: Counts  # (lines,)
    by_sum: Mapping[int, list[int]]  # the lines of each sum of their characters' numbers
    sums: Numbers  # (sums,) sorted

    @classmethod
    def index(cls, lines: Sequence[str]) -> _Runs:
        side = TextSide(list(lines), np.zeros(len(lines), np.bool_), characters.plain_classes())
        hashes, rows = _word_runs(side)
        inside = np.flatnonzero(rows[: len(hashes)] == rows[_RUN - 1 :])
        found = np.unique(hashes[inside].astype(np.int64) * len(lines) + rows[inside])
        hashes, rows = np.divmod(found, len(lines))
        is_rare = np.bincount(hashes, minlength=1 << _RUN_BITS) <= _MOST_LINES_A_RUN
        hashes, rows = hashes[is_rare[hashes]], rows[is_rare[hashes]]
        lines_a_run = np.bincount(hashes, minlength=1 << _RUN_BITS)
        starts = np.concatenate([[0], np.cumsum(lines_a_run)]).astype(np.int32)
        by_sum: dict[int, list[int]] = {}
        for row, total in enumerate(side.sums(_numbers()).tolist()):
            by_sum.setdefault(total, []).append(row)
        sums = np.array(sorted(by_sum), np.uint32)
        counts = np.bincount(rows, minlength=len(lines))
        return cls(lines_a_run > 0, starts, rows, counts, by_sum, sums)

    def candidates(self, side: TextSide, rows: Rows) -> tuple[Rows, Rows]:
        """Return pairs of a line of train, one of `rows`, and a held-out line that may be near."""
        hashes, row_of = _word_runs(side)
        runs = np.maximum(np.bincount(row_of, minlength=len(side.lines)) - _RUN + 1, 0)
        known = np.flatnonzero(self.are_known.take(hashes))
        known = known[row_of[known] == row_of[known + _RUN - 1]]
        firsts, ends = self.starts[hashes[known]], self.starts[hashes[known] + 1]
        which, places = _ranges(firsts, ends - firsts)
        found, counts = np.unique(
            row_of[known][which] * len(self.counts) + self.lines[places], return_counts=True
        )
        found_rows, lines = np.divmod(found, len(self.counts))
        may_be = counts >= _LEAST_RUNS * np.minimum(runs[found_rows], self.counts[lines])
        sums = side.sums(_numbers())
        are_known = self.sums.take(np.searchsorted(self.sums, sums), mode="clip") == sums
        matches = np.flatnonzero(are_known).tolist()
        same = [(row, line) for row in matches for line in self.by_sum[int(sums[row])]]
        of_same = np.array(same, np.int64).reshape(-1, 2)
        found_rows = np.concatenate([found_rows[may_be], of_same[:, 0]])
        lines = np.concatenate([lines[may_be], of_same[:, 1]])
        are_asked = np.isin(found_rows, rows)
        return found_rows[are_asked], lines[are_asked]


def line_overlaps(ones: Sequence[str], others: Sequence[str]) -> Overlaps:
    """Return the overlap of each line with the other one at its place: (lines,)."""
    (folded, grams), (others_folded, others_grams) = _grams(ones), _grams(others)
    shared = np.intersect1d(grams, others_grams, assume_unique=True)
    counts, sizes, others_sizes = (
        np.bincount(found >> _GRAM_BITS, minlength=len(ones))
        for found in (shared, grams, others_grams)
    )
    overlaps = OVERLAP_UNIT * counts // np.maximum(np.minimum(sizes, others_sizes), 1)
    are_same = [one == other != "" for one, other in zip(folded, others_folded, strict=True)]
    overlaps[are_same] = SAME
    return overlaps.astype(np.int16)


def _grams(lines: Sequence[str]) -> tuple[list[str], Rows]:
    """Return lines without what does not count, and their different 4-grams: (grams,), sorted.

    A 4-gram is the row of its line, times 2^18, and a hash.
    """
    text = "\n".join(lines)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    codes = np.frombuffer(text.lower().encode("utf-32-le"), "<u4")
    codes = codes[_are_letters_or_digits()[codes]]
    folded = codes.tobytes().decode("utf-32-le").split("\n")[: len(lines)]
    rows = np.cumsum(codes == ord("\n"))
    if len(codes) < _GRAM:
        return folded, np.zeros(0, np.int64)
    first, second, third, fourth = (codes[n : len(codes) - _GRAM + 1 + n] for n in range(_GRAM))
    hashes = ((first * _FACTOR + second) * _FACTOR + third) * _FACTOR + fourth
    hashes = hashes * _FACTOR >> np.uint32(32 - _GRAM_BITS)
    inside = (rows[: 1 - _GRAM] == rows[_GRAM - 1 :]) & (first != ord("\n"))
    grams = np.sort(rows[: 1 - _GRAM][inside] << _GRAM_BITS | hashes[inside])
    return folded, grams[np.diff(grams, prepend=-1) > 0]


def _word_runs(side: TextSide) -> tuple[Numbers, Rows]:
    """Return a hash of each run of words, (words - 3,), and the line of each word: (words,).

    A run may go over the end of its line.
    """
    starts = [side.bounds[:-1], np.flatnonzero(side.codes == ord(" ")) + 1]
    if side.codes.dtype != np.uint8:
        starts.append(np.flatnonzero(side.codes >= _WIDE_LETTERS))
    places = np.sort(np.concatenate(starts), kind="stable")
    firsts = np.searchsorted(places, side.bounds)
    totals = side.running_sums(_numbers())[np.append(places, side.bounds[-1])]
    hashes = (totals[_RUN:] - totals[:-_RUN]) * _FACTOR >> np.uint32(32 - _RUN_BITS)
    return hashes, np.repeat(np.arange(len(side.lines)), np.diff(firsts))


def _ranges(firsts: Rows, sizes: Counts) -> tuple[Rows, Rows]:
    """Return which range each number of some ranges is of, and the numbers, one after the other.

    For example, firsts of [5, 9] and sizes of [2, 1] give the numbers 5, 6, 9 of ranges 0, 0, 1.
    """
    which = np.repeat(np.arange(len(sizes)), sizes)
    before = np.cumsum(sizes) - sizes
    return which, np.arange(len(which)) + (firsts - before)[which]


@functools.cache
def _are_letters_or_digits() -> Mask:
    """Return whether each code point is a letter, a digit, or the end of a line: (0x110000,)."""
    are_such = np.zeros(len(characters.plain_classes()), np.bool_)
    letters = range(characters.LETTERS_END)
    are_such[: len(letters)] = [chr(code).isalnum() for code in letters]
    are_such[ord("\n")] = True
    return are_such
