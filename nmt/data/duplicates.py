"""Which pairs have been seen before, in little memory.

A table of 64-bit hashes with open addressing, in numpy and filled a block at a time, of a size that
is settled before: 10.7 bytes for a line of the training text where a Python set takes about 70, so
36 million pairs take 0.4 GB. Two different pairs are taken for one with a chance of n^2 / 2^65:
once in 28,000 such corpora.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

_EMPTY = np.uint64(0)
_SLOTS_PER_HASH = 4 / 3
# Odd, so that no information is lost; the fractional parts of the golden ratio and of pi.
_SRC_FACTOR, _TGT_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x243F6A8885A308D3)


def hash_lines(lines: Sequence[str]) -> Hashes:
    """Return 64 bits that stand for each line, but for white space at its edges: never 0.

    They are the same on every machine: BLAKE2b with a digest of 8 bytes, read little-endian.
    """
    blake2b = hashlib.blake2b
    digests = b"".join([blake2b(s.strip().encode(), digest_size=8).digest() for s in lines])
    return np.maximum(np.frombuffer(digests, "<u8").astype(np.uint64), np.uint64(1))


def hash_pairs(src: Hashes, tgt: Hashes) -> Hashes:
    """Return 64 bits that stand for each pair, from the hashes of its sides: never 0."""
    return np.maximum(src * _SRC_FACTOR + tgt * _TGT_FACTOR, np.uint64(1))


class SeenHashes:
    """The set of hashes seen so far, of which there are at most `capacity`."""

    def __init__(self, capacity: int) -> None:
        self._table: Hashes = np.zeros(int(capacity * _SLOTS_PER_HASH) + 2, np.uint64)

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add hashes in their order; return which of them were new: (len(hashes),)."""
        distinct, first = np.unique(hashes, return_index=True)
        is_new = np.zeros(len(hashes), np.bool_)
        is_new[first] = self._insert(distinct)
        return is_new

    def _insert(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Put distinct hashes into the table; return which of them were not there."""
        size = np.uint64(len(self._table))
        is_new = np.zeros(len(hashes), np.bool_)
        waiting = np.arange(len(hashes))  # those that have not found their slot yet
        slots = hashes % size
        while len(waiting):
            mine = hashes[waiting]
            free = self._table[slots] == _EMPTY
            # Where several want one free slot the last one written has it, the others look on.
            self._table[slots[free]] = mine[free]
            at_home = self._table[slots] == mine
            is_new[waiting[free & at_home]] = True
            waiting = waiting[~at_home]
            slots = (slots[~at_home] + np.uint64(1)) % size
        return is_new
