"""Forbidden token sequences: which tokens would complete one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.search.repetition import NO_PAIRS, Pairs

Ids = tuple[int, ...]


class ForbiddenSequences:
    """Token sequences that a translation may not contain."""

    def __init__(self, sequences: Iterable[Ids]) -> None:
        """Index sequences of one token or more by all tokens but the last."""
        self._last: dict[Ids, list[int]] = {}
        for sequence in sequences:
            self._last.setdefault(sequence[:-1], []).append(sequence[-1])
        self._sizes = sorted({len(beginning) for beginning in self._last})

    def completing(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens that would complete a sequence after these."""
        found: list[int] = []
        for size in self._sizes:
            if size <= len(ids):
                found += self._last.get(tuple(ids[len(ids) - size :]), ())
        return found


def completing_tokens(sequences: Sequence[ForbiddenSequences], ids: NDArray[np.int64]) -> Pairs:
    """Return the tokens that would complete a sequence.

    Args:
        sequences: those of each of B sentences.
        ids: (N, t) their hypotheses so far, as many of each.
    """
    each = len(ids) // len(sequences)
    pairs = [
        (row, token)
        for row, own in enumerate(ids.tolist())
        for token in sequences[row // each].completing(own)
    ]
    return np.array(pairs, np.int64) if pairs else NO_PAIRS
