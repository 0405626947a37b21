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
sill, and `Is Tom ill?` has isto, stom, tomi, omil, mill, so their overlap is 1/5. A line of fewer
than four letters counts as one 4-gram. In what is told of valid and test, the shorter line counts
as at least half the longer one: in a million lines, any line holds a short one, such as `That is
what`, and would be a near copy of it. The index holds only lines of valid and test, so its memory
does not grow with train. There are two ways to compare:

- Small text is compared line by line. Each 4-gram leads to the lines of valid and test that have
  it.
- In large text that would cost more than all other rules together. So lines are only compared if
  they share runs of four words. A run's number is the difference of two running sums over the text,
  which `OverlapKeys` needs anyway. In scripts without spaces, each character counts as a word. A
  line as a whole counts as a run, too. The shortest lines of each block, which longer ones may
  hold, are compared with all. For 600 lines of Europarl and 200,000 lines of train, this finds 271
  of 283 near copies, and 95 % of the half that is farther from train. For 600 lines of Tatoeba and
  164,782 of train, it finds 149 of 267 and 73 %, because many lines have no run of four words.
"""

from __future__ import annotations

import functools
import hashlib
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

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
        is_new = np.zeros(len(hashes), np.bool_)
        distinct, first = np.unique(hashes, return_index=True)
        size = np.uint64(len(self._table))
        waiting = np.arange(len(distinct))  # indices of those that have not found their slot yet
        slots = distinct % size
        while len(waiting):
            mine = distinct[waiting]
            free = self._table[slots] == _EMPTY
            # If several hashes want the same free slot, the last one gets it and the others go on:
            # of 5 and 9 in a table of 4, 9 gets slot 1, and then 5 looks at slot 2.
            self._table[slots[free]] = mine[free]
            at_home = self._table[slots] == mine
            is_new[first[waiting[free & at_home]]] = True
            waiting = waiting[~at_home]
            slots = (slots[~at_home] + np.uint64(1)) % size
        return is_new


class OverlapKeys(NamedTuple):
    """The keys that recognise lines of one side of valid and test, of which there may be none."""

    sums: Numbers  # (lines,) sums of their characters' numbers, sorted
    keys: frozenset[bytes]

    @classmethod
    def of(cls, lines: Sequence[str]) -> OverlapKeys:
        """Return the keys of the lines that are long enough to count."""
        side = _side(lines)
        long_enough = np.flatnonzero(side.sums(_weights()) >= OVERLAP_FREE_LETTERS)
        keys = frozenset(_key(side.lines[index]) for index in long_enough)
        return cls(np.unique(side.sums(_numbers())[long_enough]), keys)

    def found_in(self, side: TextSide) -> Mask:
        if not len(self.sums):
            return np.zeros(len(side.lines), np.bool_)
        sums = side.sums(_numbers())
        # np.isin would sort both anew for each block.
        matches: Mask = self.sums.take(np.searchsorted(self.sums, sums), mode="clip") == sums
        for index in np.flatnonzero(matches).tolist():
            matches[index] = _key(side.lines[index]) in self.keys
        return matches


def pair_keys(src: Sequence[str], tgt: Sequence[str]) -> list[frozenset[str]]:
    """Return what recognises each pair, whichever side is the source: (pairs,).

    Unlike `OverlapKeys`, these keys tell pairs of any length, and with every character of a line in
    NFC except white space at its edges.
    """
    pairs = zip(compose_lines(src), compose_lines(tgt), strict=True)
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
        for first, last in characters.BLOCKS[script]:
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
    folded = _fold("\n".join(letters.tobytes().decode("utf-32-le"))).split("\n")
    numbers[: len(folded)] = _side(folded).sums(hashes)
    return numbers


def _side(lines: Sequence[str]) -> TextSide:
    return TextSide(list(lines), np.zeros(len(lines), np.bool_), characters.plain_classes())


OVERLAP_UNIT = 10_000
SAME = OVERLAP_UNIT + 1  # the overlap of lines that have all 4-grams in common
NEAR_COPY = int(0.85 * OVERLAP_UNIT)
_GRAM, _GRAM_BITS = 4, 18
"""Of 4-grams, as bits of a hash. A line has few, so they hardly ever collide."""
_RUN, _RUN_BITS = 4, 21
"""Of runs of words, likewise. Those that collide are compared in vain."""
LEAST_LENGTH = 0.5
"""Of the longer line, in what is told of valid and test."""
_MOST_LINES_A_RUN = 2  # more common ones would lead to too many lines
_LEAST_RUNS = 0.5  # share of the runs of a near copy that stay whole
_LONG = 80  # characters a line, from which on every second run is enough
_WIDE_LETTERS = 0x2E80  # code points from which on a letter counts as a word
_SMALL_LINES, _SMALL_WORK = 500_000, 5e8
"""Text is small if train has at most so many lines, and so many comparisons are needed of lines
and 4-grams: they take up to 3 seconds a side."""
_SHORTEST = 32  # so many lines of a block of large text are compared with all
_CHUNK = 1 << 18  # pairs of lines that are compared at a time
_FACTOR = np.uint32(0x9E3779B1)


class HeldOutLines(NamedTuple):
    """The lines of one language in valid and test, to be compared with train."""

    lines: Sequence[str]
    pairs: Rows  # (lines,) the number of each line's pair in valid and test
    sizes: Counts  # (lines,) how many 4-grams they have
    by_gram: _Index  # the lines that have each 4-gram
    by_run: _Index | None  # those that have each run of words; None: train is small
    are_wide: bool  # whether some letters count as words

    @classmethod
    def of(
        cls, lines: Sequence[str], pairs: Rows, *, train_lines: int, train_bytes: int
    ) -> HeldOutLines:
        """Return the index of some lines, for train of this size in the same language."""
        rows, hashes = _grams(lines)
        by_gram = _Index.of(hashes, rows, bits=_GRAM_BITS)
        sizes = np.bincount(rows, minlength=len(lines))
        counts = np.diff(by_gram.starts).astype(np.float64)
        work = train_bytes * (counts @ counts) / max(1, len(rows)) + train_lines * len(lines)
        if train_lines <= _SMALL_LINES and work <= _SMALL_WORK:
            return cls(lines, pairs, sizes, by_gram, None, are_wide=False)
        side = _side(lines)
        are_wide = bool((side.codes >= _WIDE_LETTERS).any())
        hashes, rows, ends = _word_runs(side, are_wide=are_wide)
        inside = rows == ends
        by_run = _Index.of(hashes[inside], rows[inside], bits=_RUN_BITS, most=_MOST_LINES_A_RUN)
        return cls(lines, pairs, sizes, by_gram, by_run, are_wide)

    def compare(
        self, side: TextSide, rows: Rows, *, least: float = 0.0
    ) -> tuple[Overlaps, Overlaps]:
        """Compare some lines of train with all these lines.

        least: the shorter line counts as at least this share of the longer one.
        Returns the largest overlap of each line of train, (rows,), and of each of these: (lines,).
        """
        of_rows = np.zeros(len(side.lines), np.int16)
        of_lines = np.zeros(len(self.lines), np.int16)
        compared = rows
        if self.by_run is not None:
            which, lines = self._may_be_near(self.by_run, side)
            is_asked = np.isin(which, rows)
            which, lines = which[is_asked], lines[is_asked]
            ones, others = [side.lines[row] for row in which], [self.lines[line] for line in lines]
            overlaps = line_overlaps(ones, others, least=least)
            np.maximum.at(of_rows, which, overlaps)
            np.maximum.at(of_lines, lines, overlaps)
            compared = rows[np.argsort(side.lengths[rows], kind="stable")[:_SHORTEST]]
        step = max(1, _CHUNK // len(self.lines))
        for chunk in (compared[n : n + step] for n in range(0, len(compared), step)):
            table = self._table([side.lines[row] for row in chunk], least=least)
            of_rows[chunk] = np.maximum(of_rows[chunk], table.max(1))
            of_lines = np.maximum(of_lines, table.max(0))
        return of_rows[rows], of_lines

    def _may_be_near(self, by_run: _Index, side: TextSide) -> tuple[Rows, Rows]:
        """Return lines of train, and for each of them one of these that may be near."""
        count = len(self.lines)
        step = 1 + (len(side.codes) > _LONG * len(side.lines))
        hashes, rows, ends = _word_runs(side, are_wide=self.are_wide, step=step)
        which, lines = by_run.find(hashes)
        inside = rows[which] == ends[which]
        found, shared = np.unique(rows[which[inside]] * count + lines[inside], return_counts=True)
        found_rows, lines = np.divmod(found, count)
        runs = np.maximum(step * np.bincount(rows) - _RUN - step + 2, 1)
        least = _LEAST_RUNS * np.minimum(runs[found_rows], by_run.counts[lines])
        may_be = step * shared >= least
        return found_rows[may_be], lines[may_be]

    def _table(self, lines: Sequence[str], *, least: float) -> Overlaps:
        """Return the overlap of each of some lines with each of these: (len(lines), lines)."""
        rows, hashes = _grams(lines)
        which, own = self.by_gram.find(hashes)
        shape = len(lines), len(self.lines)
        shared = np.bincount(rows[which] * shape[1] + own, minlength=shape[0] * shape[1])
        sizes = np.bincount(rows, minlength=len(lines))
        return _shares(shared.reshape(shape), sizes[:, None], self.sizes, least=least)


class _Index(NamedTuple):
    """Which lines have each hash."""

    is_known: Mask  # (2^bits,)
    starts: npt.NDArray[np.int32]  # (2^bits + 1,) where the lines of each hash begin
    lines: Rows  # of one hash after the other
    counts: Counts  # (lines,) how many hashes they have

    @classmethod
    def of(cls, hashes: Numbers, lines: Rows, *, bits: int, most: int | None = None) -> _Index:
        """Index some lines by their hashes, except those that more than `most` lines have."""
        found = _distinct(hashes.astype(np.int64) << 32 | lines)
        sizes = np.bincount(found >> 32, minlength=1 << bits)
        if most is not None:
            found = found[sizes[found >> 32] <= most]
            sizes[sizes > most] = 0
        starts = np.append(0, np.cumsum(sizes)).astype(np.int32)
        lines = found & 0xFFFFFFFF
        return cls(sizes > 0, starts, lines, np.bincount(lines))

    def find(self, hashes: Numbers) -> tuple[Rows, Rows]:
        """Return all lines that have some hashes, each after the place of its hash."""
        known = np.flatnonzero(self.is_known.take(hashes))
        firsts, ends = self.starts[hashes[known]], self.starts[hashes[known] + 1]
        sizes = ends - firsts
        before = np.cumsum(sizes) - sizes
        places = np.arange(sizes.sum()) + np.repeat(firsts - before, sizes)
        return np.repeat(known, sizes), self.lines[places]


def line_overlaps(ones: Sequence[str], others: Sequence[str], *, least: float = 0.0) -> Overlaps:
    """Return the overlap of each line with the other one at its place: (lines,).

    least: the shorter line counts as at least this share of the longer one.
    """
    keys = [rows << 32 | hashes for rows, hashes in map(_grams, (ones, others))]
    shared = np.intersect1d(keys[0], keys[1], assume_unique=True)
    counts = (np.bincount(found >> 32, minlength=len(ones)) for found in (shared, *keys))
    return _shares(*counts, least=least)


def _shares(shared: Counts, sizes: Counts, other_sizes: Counts, *, least: float) -> Overlaps:
    """Return overlaps of lines, given their numbers of 4-grams and of those that they share."""
    # A division of integers would take five times as long.
    ones, others = (np.maximum(each, 1).astype(np.float32) for each in (sizes, other_sizes))
    shorter = np.maximum(np.minimum(ones, others), np.float32(least) * np.maximum(ones, others))
    shares = np.float32(OVERLAP_UNIT) * shared.astype(np.float32) / shorter
    overlaps = shares.astype(np.int16)
    overlaps += (overlaps == OVERLAP_UNIT) & (ones == others)
    return overlaps


def _grams(lines: Sequence[str]) -> tuple[Rows, Numbers]:
    """Return the different 4-grams of each line, as the line and a hash: (grams,) each, sorted."""
    text = "".join([f"{line}\n\n\n" for line in lines])  # so that no 4-gram is of two lines
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    codes = np.frombuffer(text.lower().encode("utf-32-le"), "<u4")
    codes = codes[_are_letters_or_digits()[codes]]
    are_ends = codes == ord("\n")
    first, second, third, fourth = (codes[n : len(codes) - 3 + n] for n in range(_GRAM))
    hashes = ((first * _FACTOR + second) * _FACTOR + third) * _FACTOR + fourth
    hashes = hashes * _FACTOR >> np.uint32(32 - _GRAM_BITS)
    begin_lines = np.append(True, are_ends)[: len(first)]
    is_gram = ~are_ends[: len(first)] & (~are_ends[3:] | begin_lines)
    rows = np.cumsum(are_ends)[: len(first)] // 3
    grams = _distinct(rows[is_gram] << 32 | hashes[is_gram])
    return grams >> 32, (grams & 0xFFFFFFFF).astype(np.uint32)


def _distinct(values: Rows) -> Rows:
    """Return values, from 0, once each and sorted; np.unique takes ten times as long."""
    ascending = np.sort(values)
    return ascending[np.diff(ascending, prepend=-1) > 0]


def _word_runs(side: TextSide, *, are_wide: bool, step: int = 1) -> tuple[Numbers, Rows, Rows]:
    """Return a hash of each run of words, and the lines in which it begins and ends: (runs,) each.

    The last ones are those of whole lines. are_wide: whether some letters count as words; step: a
    run begins at every word, or at every second one.
    """
    starts = [side.bounds[:-1], np.flatnonzero(side.codes == ord(" ")) + 1]
    if are_wide:
        starts.append(np.flatnonzero(side.codes >= _WIDE_LETTERS))
    places = np.sort(np.concatenate(starts), kind="stable")
    totals = side.running_sums(_numbers())[np.append(places, side.bounds[-1])]
    sums = np.append(totals[_RUN::step] - totals[:-_RUN:step], ~side.sums(_numbers()))
    lines = np.arange(len(side.lines))
    firsts = np.append(np.searchsorted(places, side.bounds[:-1]), len(places))
    words = np.repeat(lines, np.diff(firsts))
    begin, end = words[: 1 - _RUN : step], words[_RUN - 1 :: step]
    begin, end = np.append(begin, lines), np.append(end, lines)
    return sums * _FACTOR >> np.uint32(32 - _RUN_BITS), begin, end


@functools.cache
def _are_letters_or_digits() -> Mask:
    """Return whether each code point is a letter, a digit, or the end of a line: (0x110000,)."""
    are_such = np.zeros(len(characters.plain_classes()), np.bool_)
    letters = range(characters.LETTERS_END)
    are_such[: len(letters)] = [chr(code).isalnum() for code in letters]
    are_such[ord("\n")] = True
    return are_such
