"""Epochs: the order in which training visits the pairs, and the pairs of each update.

An epoch is a permutation of all pairs, computed from (seed, epoch) and never stored. Training goes
through it in pools of about a million pairs. Only the plan of one pool is in memory, and any pool
can be planned without the ones before it. So opening a large corpus and resuming in the middle of
an epoch cost the same for any size.

`Permutation` is a Feistel network over the bits of an index, which permutes the numbers below a
power of four (Luby and Rackoff 1988). A result that is too large is permuted again until it fits
("cycle walking", Black and Rogaway 2002). This takes fewer than four rounds on average.

Lengths here include the eos of both sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nmt.data.shards import Lengths, TokenRows
from nmt.errors import UsageError

Indices = npt.NDArray[np.int64]

_ROUNDS = 8
POOL_PAIRS = 1 << 20


class Permutation:
    """A permutation of 0 .. size - 1, decided by a seed."""

    def __init__(self, size: int, seed: tuple[int, ...]) -> None:
        self._size = size
        self._half_bits = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
        self._half_mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def take(self, positions: Indices) -> Indices:
        """Return the numbers at these positions, in the same shape."""
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
    """Return well-mixed bits for each value: the finaliser of splitmix64 (Steele et al. 2014)."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


def random_bits(pairs: Indices, *key: int) -> npt.NDArray[np.uint64]:
    """Return a random number of 64 bits for each pair: (pairs,).

    It depends on the pair and the key only, so a pair draws the same in any process, and after
    resuming.

    pairs: their numbers.
    key: the seed; the epoch, or the corpus whose lines the pairs are; what the number is for.
    """
    keys = np.random.SeedSequence((*key, 1)).generate_state(2, np.uint64)
    return mix(mix(pairs.astype(np.uint64) ^ keys[0]) ^ keys[1])


def random_shares(pairs: Indices, *key: int) -> npt.NDArray[np.float64]:
    """Return a random number from 0 to below 1 for each pair: (pairs,). See `random_bits`."""
    return (random_bits(pairs, *key) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class EncodedPairs(Protocol):
    """Encoded pairs, as data folders provide them."""

    @property
    def shares(self) -> Sequence[tuple[int, float]]:
        """Runs of pairs with the same weight, as (number of pairs, weight)."""

    def __len__(self) -> int: ...
    def lengths(self, indices: Indices) -> tuple[Lengths, Lengths]:
        """Source and target lengths of some pairs, without eos."""

    def rows(self, indices: Indices) -> tuple[TokenRows, TokenRows]:
        """Source and target ids of some pairs, without eos."""


class Epochs:
    """The order of every epoch.

    With a weight of 2 an epoch visits each pair of a share twice. With 0.5 it visits half of them,
    a different half in each epoch.
    """

    def __init__(self, shares: Sequence[tuple[int, float]], *, seed: int) -> None:
        self._seed = seed
        self._shares = [(count, round(count * weight)) for count, weight in shares]
        self._ends = np.cumsum([visits for _, visits in self._shares])  # end of each share's visits
        self.visits = int(self._ends[-1])
        """How many pairs an epoch visits."""
        self.pools = max(1, round(self.visits / POOL_PAIRS))
        """How many pools of pairs an epoch has."""

    def pool(self, epoch: int, pool: int) -> Indices:
        """Return the pairs of a pool in the order in which the epoch visits them."""
        bounds = [self.visits * edge // self.pools for edge in (pool, pool + 1)]
        order = Permutation(self.visits, (self._seed, epoch))
        return self.pairs_of(order.take(np.arange(*bounds)), epoch)

    def pairs_of(self, visits: Indices, epoch: int) -> Indices:
        """Return the pair of each of these visits of an epoch."""
        pairs = np.empty_like(visits)
        share_of = np.searchsorted(self._ends, visits, side="right")
        first_pair = 0
        for number, (count, share_visits) in enumerate(self._shares):
            mine = np.flatnonzero(share_of == number)
            within = visits[mine] - (int(self._ends[number]) - share_visits)
            round_, place = np.divmod(within, max(1, count))
            # The last round visits only some of the pairs, chosen anew in each epoch.
            partial = round_ == share_visits // max(1, count)
            if partial.any():
                chosen = Permutation(count, (self._seed, epoch, number))
                place[partial] = chosen.take(place[partial])
            pairs[mine] = first_pair + place
            first_pair += count
        return pairs


def mixed_shares(
    shares: Sequence[tuple[int, float]], pairs: Sequence[tuple[str, str]], temperature: float
) -> list[tuple[int, float]]:
    """Return the shares with the weights by which several pairs of languages are mixed.

    With a temperature of T, a pair of languages is visited by its size to the power of 1/T
    (Arivazhagan et al. 2019, section 3). The largest one keeps its weights.

    shares: number of sentence pairs, and weight; pairs: the languages of each share; temperature:
    T, at least 1.
    """
    if temperature == 1:
        return list(shares)
    visits: dict[tuple[str, str], float] = defaultdict(float)
    for langs, (count, weight) in zip(pairs, shares, strict=True):
        visits[langs] += count * weight
    largest = max(visits.values())
    return [
        (count, weight * (largest / max(1.0, visits[langs])) ** (1 - 1 / temperature))
        for langs, (count, weight) in zip(pairs, shares, strict=True)
    ]


def plan_pool(
    pairs: EncodedPairs, epochs: Epochs, *, batch_tokens: int, epoch: int, pool: int
) -> list[Indices]:
    """Cut the shuffled pairs of a pool into updates wherever the budget of either side is full.

    So an update has sentences of all lengths. Updates of one length would need less padding, but
    training would learn more slowly from them. UsageError if a single pair exceeds the budget.
    """
    shuffled = epochs.pool(epoch, pool)
    src, tgt = (side.astype(np.int64) + 1 for side in pairs.lengths(shuffled))
    check_budget(batch_tokens, max(int(src.max()), int(tgt.max())))
    return np.split(shuffled, cut_by_tokens(src, tgt, batch_tokens)[1:-1])


def check_budget(batch_tokens: int, longest: int) -> None:
    """Raise UsageError if a sentence of `longest` tokens exceeds the budget of an update."""
    if longest > batch_tokens:
        raise UsageError(
            f"batch_tokens is {batch_tokens}, but the longest sentence has {longest} tokens; "
            "raise batch_tokens or prepare the data with a smaller --max-length"
        )


def cut_by_tokens(src_lengths: Indices, tgt_lengths: Indices, budget: int) -> Indices:
    """Return the bounds of runs of pairs in which neither side's tokens exceed the budget.

    As many pairs as fit make a run, and a pair that does not fit is a run by itself.

    src_lengths, tgt_lengths: (pairs,), eos included; budget: of a side.
    Returns the start of each run, and the end of the last one: (runs + 1,).
    """
    sums = [np.concatenate(([0], np.cumsum(side))) for side in (src_lengths, tgt_lengths)]
    bounds = [0]
    while bounds[-1] < len(src_lengths):
        start = bounds[-1]
        ends = [np.searchsorted(s, s[start] + budget, side="right") - 1 for s in sums]
        bounds.append(max(start + 1, int(min(ends))))
    return np.asarray(bounds, dtype=np.int64)
