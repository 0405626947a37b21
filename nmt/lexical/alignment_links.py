"""Links: which source token a target token stands for, by IBM Model 1 in both directions.

A target token's candidate is the source token that most probably generates it, and a source token's
is the target token that does. Of equally probable ones it is the nearest to the diagonal of the
pair. Where both agree there is a link (the intersection). Then the links grow, as in grow-diag
(Koehn et al. 2003), but only by target tokens that have none: such a token is linked with its
candidate if that is at most one token away from the source of a neighbour's link. So a target token
has at most one link, while a source token may have several.

Links are a function of the token ids of a pair, and of nothing else. So they fit text that was
augmented or segmented anew, and they are the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches import NO_LINK
from nmt.data.folder import PairDataset
from nmt.data.shards import TokenRows
from nmt.lexical.ibm_model1 import Integers, learn_lexicon

_LEAST = 1e-4  # less probable translations are forgotten, in either direction


@dataclass(frozen=True)
class TokenLinker:
    """Links the tokens of pairs by a lexicon of both directions."""

    keys: Integers  # (entries,) ascending: source token * target vocabulary + target token
    forward: NDArray[np.float64]  # (entries,): t(target | source)
    backward: NDArray[np.float64]  # (entries,): t(source | target)
    tgt_vocab_size: int

    @classmethod
    def learn(
        cls,
        pairs: PairDataset,
        src_vocab_size: int,
        tgt_vocab_size: int,
        on_progress: Callable[[int], object] | None = None,
    ) -> TokenLinker:
        """Learn the lexicon from pairs, or from evenly spaced ones if not all fit in memory.

        on_progress: called with 1 after each of 2 * `LEXICON_STEPS` steps.
        """
        directions, sizes = [], (src_vocab_size, tgt_vocab_size)
        for backward in (False, True):
            lexicon = learn_lexicon(pairs, *sizes, backward=backward, on_progress=on_progress)
            is_likely = lexicon.probs >= _LEAST
            sides = lexicon.sources[is_likely], lexicon.targets[is_likely]
            src, tgt = sides[::-1] if backward else sides
            directions.append((src * tgt_vocab_size + tgt, lexicon.probs[is_likely]))
        (ours, forward), (theirs, backward_probs) = directions
        keys, mine, yours = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
        return cls(keys, forward[mine], backward_probs[yours], tgt_vocab_size)

    def __call__(self, src: TokenRows, tgt: TokenRows) -> Integers:
        """Return the position of each target token's source token in its sentence, or `NO_LINK`.

        src, tgt: the token ids of pairs, without bos and eos.
        Returns (target tokens,) of all pairs, one pair after the other.
        """
        entries = self._entries(src, tgt)
        known = entries >= 0
        of_targets = _candidates(tgt, src, np.where(known, self.forward[entries], 0.0), 0)
        of_sources = _candidates(src, tgt, np.where(known, self.backward[entries], 0.0), 1)
        rows, positions = _places(tgt)
        has = of_targets != NO_LINK
        starts = (np.cumsum(src.lengths) - src.lengths)[rows]  # of each target token's source
        agreed = has.copy()
        agreed[has] = of_sources[(starts + of_targets)[has]] == positions[has]
        return _grown(np.where(agreed, of_targets, NO_LINK), of_targets, rows)

    def _entries(self, src: TokenRows, tgt: TokenRows) -> Integers:
        """Return the lexicon's entry of each source token with each target token, -1 without one.

        Returns (comparisons,), pair by pair; in each, all of the first target token, then the
        second.
        """
        facing = src.take(_places(tgt)[0])  # the source of each target token
        keys = facing.ids.astype(np.int64) * self.tgt_vocab_size
        keys += np.repeat(tgt.ids.astype(np.int64), facing.lengths)
        entries: NDArray[np.int64] = np.searchsorted(self.keys, keys)
        entries[entries == len(self.keys)] = -1  # the last key, which is another, too
        entries[self.keys[entries] != keys] = -1
        return entries


def _places(rows: TokenRows) -> tuple[Integers, Integers]:
    """Return the row of each token, and its position there: (tokens,) both."""
    numbers = np.repeat(np.arange(len(rows)), rows.lengths)
    return numbers, np.arange(len(numbers)) - (np.cumsum(rows.lengths) - rows.lengths)[numbers]


def _candidates(
    own: TokenRows, others: TokenRows, scores: NDArray[np.float64], own_axis: int
) -> Integers:
    """Return the position of the best token of the other side for each own one, or `NO_LINK`.

    own, others: the token ids of both sides; scores: (comparisons,), in the order of
    `TokenLinker._entries`; own_axis: of each pair's scores (T, S), 0 or 1.
    """
    rows, positions = _places(own)
    counts, sizes = (side.lengths.astype(np.int64)[rows] for side in (others, own))
    begins = np.cumsum(counts) - counts  # of each own token's comparisons
    each = np.repeat(np.arange(len(rows)), counts)  # (comparisons,): its own token
    places = np.arange(len(each)) - begins[each]  # its position on the other side
    if own_axis == 1:
        # The score of target token t with source token s is t * S + s after the pair's first.
        first = begins - positions * counts  # of the pair's comparisons
        scores = scores[(first + positions)[each] + places * sizes[each]]
    # `reduceat` needs something to reduce for each token: no side of a pair is empty.
    best = np.maximum.reduceat(scores, begins)  # (own tokens,)
    # (position + 1/2) / length on both sides, times both lengths and 2: whole numbers are exact.
    distances = np.abs((2 * places + 1) * sizes[each] - ((2 * positions + 1) * counts)[each])
    distances[scores < best[each]] = np.iinfo(np.int64).max
    places[distances > np.minimum.reduceat(distances, begins)[each]] = len(each)
    nearest_places = np.minimum.reduceat(places, begins)  # of two as near, the first
    return np.where(best > 0, nearest_places, NO_LINK)


def _grown(links: Integers, candidates: Integers, rows: Integers) -> Integers:
    """Link tokens with their candidates next to links of their neighbours, until there are none.

    All are (target tokens,): links and candidates are positions or `NO_LINK`, rows the pairs.
    """
    links = links.copy()
    is_next = np.diff(rows) == 0  # whether a token and the following one are of one pair
    while True:
        joins = np.zeros(len(links), bool)
        for to, neighbour in ((slice(1, None), slice(-1)), (slice(-1), slice(1, None))):
            near = np.abs(links[neighbour] - candidates[to]) <= 1
            joins[to] |= is_next & near & (links[neighbour] != NO_LINK)
        joins &= (links == NO_LINK) & (candidates != NO_LINK)
        if not joins.any():
            return links
        links[joins] = candidates[joins]
