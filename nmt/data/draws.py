"""Random numbers of pairs, each a function of a seed and of the pair.

So a pair draws the same in any process, and after resuming.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.data.epochs import Indices, mix


@dataclass(frozen=True)
class Draws:
    """Random numbers of pairs, each a function of (seed, part, pair, what it is for)."""

    pairs: Indices
    seed: int
    part: int
    """The epoch of training, or the corpus whose lines the pairs are."""

    def whole(self, *what: int) -> npt.NDArray[np.uint64]:
        """Return numbers of 64 bits: (pairs,)."""
        keys = np.random.SeedSequence((self.seed, self.part, *what, 1)).generate_state(2, np.uint64)
        return mix(mix(self.pairs.astype(np.uint64) ^ keys[0]) ^ keys[1])

    def uniform(self, *what: int) -> npt.NDArray[np.float64]:
        """Return numbers from 0 to below 1: (pairs,)."""
        return (self.whole(*what) >> np.uint64(11)).astype(np.float64) * 2.0**-53
