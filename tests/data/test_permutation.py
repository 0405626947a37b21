"""Computed permutations are permutations, decided by their seed, and look like drawn ones."""

from __future__ import annotations

import numpy as np
import pytest

from nmt.data.epochs import Permutation


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 17, 64, 1000, 65_536, 65_537])
def test_every_number_stands_at_one_place(size: int) -> None:
    order = Permutation(size, (1, 2)).take(np.arange(size))
    assert np.array_equal(np.sort(order), np.arange(size))


def test_a_part_is_the_same_as_in_the_whole() -> None:
    permutation = Permutation(10_000, (7,))
    whole = permutation.take(np.arange(10_000))
    assert np.array_equal(permutation.take(np.array([9, 9_999, 0])), whole[[9, 9_999, 0]])


def test_sizes_beyond_32_bits_are_in_reach() -> None:
    images = Permutation(10**12, (1,)).take(np.arange(1000))
    assert len(np.unique(images)) == 1000
    assert 0 <= images.min() <= images.max() < 10**12


def test_seeds_decide_the_order() -> None:
    orders = [Permutation(100, seed).take(np.arange(100)) for seed in ((1, 2), (1, 3), (2, 2))]
    again = Permutation(100, (1, 2)).take(np.arange(100))
    assert np.array_equal(orders[0], again)
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


@pytest.mark.parametrize("size", [10, 20])
def test_every_number_is_as_likely_at_every_place(size: int) -> None:
    draws = 4000
    counts = np.zeros((size, size))
    for seed in range(draws):
        counts[np.arange(size), Permutation(size, (seed,)).take(np.arange(size))] += 1
    expected = draws / size
    chi_square = ((counts - expected) ** 2 / expected).sum()
    # (size - 1)^2 degrees of freedom: mean that, standard deviation sqrt(2) * (size - 1).
    assert abs(chi_square - (size - 1) ** 2) < 5 * 2**0.5 * (size - 1)


def test_neighbours_are_not_kept_together() -> None:
    size = 100_000
    order = Permutation(size, (3,)).take(np.arange(size))
    # Of two independent places the mean distance is a third of the size; its standard error here
    # is sqrt(1 / 18 / 100,000) of the size.
    distance = np.abs(np.diff(order)).mean() / size
    assert abs(distance - 1 / 3) < 5 * (1 / 18 / size) ** 0.5
