"""Which pairs have been seen before, in little memory.

A table of 64-bit hashes with open addressing, in numpy and filled a batch at a time: 11 to 22 bytes
for a distinct pair where a Python set takes about 70, so 36 million pairs take 0.5 GiB (0.8 GiB for
the moment in which it grows). Two different pairs are taken for one with a chance of n^2 / 2^65:
once in 28,000 such corpora.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]

_EMPTY = np.uint64(0)
_FULL = 0.75


def hash_pair(src: str, tgt: str) -> int:
    """Return 64 bits that stand for a pair, the same on every machine and never 0."""
    digest = hashlib.blake2b(f"{src}\n{tgt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


class SeenPairs:
    """The set of hashes seen so far."""

    def __init__(self, *, slots: int = 1 << 16) -> None:
        self._table: Hashes = np.zeros(slots, np.uint64)  # slots is a power of two
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add hashes in order; return which of them were new: (len(hashes),)."""
        is_new = np.zeros(len(hashes), np.bool_)
        distinct, first = np.unique(hashes, return_index=True)
        while self._count + len(distinct) > _FULL * len(self._table):
            earlier = self._table[self._table != _EMPTY]
            self._table = np.zeros(2 * len(self._table), np.uint64)
            self._insert(earlier)
        is_new[first] = self._insert(distinct)
        self._count += int(is_new.sum())
        return is_new

    def _insert(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Put distinct hashes into the table; return which of them were not there."""
        mask = np.uint64(len(self._table) - 1)
        is_new = np.zeros(len(hashes), np.bool_)
        waiting = np.arange(len(hashes))  # those that have not found their slot yet
        slots = hashes & mask
        while len(waiting):
            mine = hashes[waiting]
            free = self._table[slots] == _EMPTY
            # Where several want one free slot the last one written has it, the others look on.
            self._table[slots[free]] = mine[free]
            at_home = self._table[slots] == mine
            is_new[waiting[free & at_home]] = True
            waiting = waiting[~at_home]
            slots = (slots[~at_home] + np.uint64(1)) & mask
        return is_new
