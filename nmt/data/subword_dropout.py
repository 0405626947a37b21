"""BPE dropout (Provilkov et al. 2020) on encoded text: other segmentations of the same words.

Each merge that made a token is undone with probability p, independently. A token splits where a
merge is undone. This works on ids, so shards stay as they are, and a resumed run draws the same.

At the same p it splits more than the paper's algorithm, which gives a dropped merge another chance
in its next step and lets the characters join in other ways. Here, 0.06 is what 0.1 is there: see
examples/multi30k/EXPERIMENTS.md, "Subword dropout".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nmt.data.shards import TokenRows
from nmt.data.vocabulary import Vocabulary

Halves = npt.NDArray[np.int64]


class SubwordDropout:
    """Undoes merges of a vocabulary's tokens with probability p."""

    def __init__(self, vocabulary: Vocabulary, p: float) -> None:
        self._left, self._right = map(np.array, zip(*vocabulary.merges(), strict=True))
        self._p = p
        # (V,) the probability that no merge of a token is undone
        self._whole = (1 - p) ** self._count_merges()

    def __call__(self, rows: TokenRows, random: np.random.Generator) -> TokenRows:
        ids = rows.ids.astype(np.int64)
        owners = np.repeat(np.arange(len(rows)), rows.lengths)
        broken = random.random(len(ids)) >= self._whole[ids]
        while broken.any():
            ids, broken, parts = self._split(ids, broken, random)
            owners = np.repeat(owners, parts)
        lengths = np.bincount(owners, minlength=len(rows)).astype(np.int32)
        return TokenRows(ids.astype(rows.ids.dtype), lengths)

    def _split(
        self, ids: Halves, broken: npt.NDArray[np.bool_], random: np.random.Generator
    ) -> tuple[Halves, npt.NDArray[np.bool_], Halves]:
        """Split each broken token at its last merge.

        Returns the new ids, which of them are broken too, and the number of parts of each old
        token.
        """
        positions = np.flatnonzero(broken)
        left, right = self._left[ids[positions]], self._right[ids[positions]]
        whole_left, whole_right = self._whole[left], self._whole[right]
        # A broken token has at least one merge undone: its last one, one on the left or the right.
        intact = (1 - self._p) * whole_left * whole_right
        left_broken = random.random(len(positions)) * (1 - intact) < 1 - whole_left
        # If the left part is whole, the last merge or one on the right is undone.
        chance = (1 - whole_right) / np.where(left_broken, 1.0, 1 - (1 - self._p) * whole_right)
        right_broken = random.random(len(positions)) < chance
        parts = 1 + broken.astype(np.int64)
        ids, flags = np.repeat(ids, parts), np.zeros(int(parts.sum()), np.bool_)
        first = np.cumsum(parts)[positions] - 2
        ids[first], ids[first + 1] = left, right
        flags[first], flags[first + 1] = left_broken, right_broken
        return ids, flags, parts

    def _count_merges(self) -> Halves:
        """Return how many merges made each token, 0 for a character: (V,)."""
        merged = np.flatnonzero(self._left >= 0)
        merges = np.zeros(len(self._left), np.int64)
        while True:
            counted = merges.copy()
            counted[merged] = 1 + merges[self._left[merged]] + merges[self._right[merged]]
            if np.array_equal(counted, merges):
                return merges
            merges = counted
