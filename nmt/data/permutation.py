"""Permutations that are computed and not stored: any part of a shuffled order in constant memory.

A Feistel network over the bits of an index permutes the numbers below a power of four (Luby and
Rackoff 1988); an image that is too large is permuted again until it fits ("cycle walking", Black
and Rogaway 2002), which is a permutation again and takes less than four rounds on average.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]

_ROUNDS = 8


class Permutation:
    """A permutation of 0 .. size - 1, decided by the numbers of a seed."""

    def __init__(self, size: int, seed: tuple[int, ...]) -> None:
        self._size = size
        self._half_bits = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._half_mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def __len__(self) -> int:
        return self._size

    def take(self, positions: Indices) -> Indices:
        """Return what stands at each of the positions: the same shape."""
        images = self._encrypt(positions.astype(np.uint64))
        outside = np.flatnonzero(images >= self._size)
        while len(outside):
            images[outside] = self._encrypt(images[outside])
            outside = outside[images[outside] >= self._size]
        return images.astype(np.int64)

    def _encrypt(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half_bits, values & self._half_mask
        for key in self._keys:
            left, right = right, left ^ (mix(right ^ key) & self._half_mask)
        return left << self._half_bits | right


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return well mixed bits for each value, by the end of splitmix64 (Steele et al. 2014)."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)
