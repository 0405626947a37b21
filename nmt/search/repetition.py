"""Repetition: which tokens would repeat something, and how often a text repeats itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Integers = NDArray[np.int64]

Pairs = Integers
"""(K, 2): the number of a hypothesis, and a token."""

NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)

LOOP_TOKENS = 4
_TIMES = 3


def repeating_tokens(ids: Integers, size: int) -> Pairs:
    """Return the tokens that would make the last `size` tokens an n-gram that is already there.

    For example, after 7 8 9 7, the pair 7 8 would be there twice if 8 followed.

    ids: (N, t) the hypotheses so far.
    """
    if ids.shape[1] < size:
        return NO_PAIRS
    ngrams = sliding_window_view(ids, size, axis=1)  # (N, t - size + 1, size)
    begun = ids[:, None, ids.shape[1] - size + 1 :]  # (N, 1, size - 1)
    rows, places = np.nonzero((ngrams[:, :, :-1] == begun).all(axis=2))
    return np.stack((rows, ngrams[rows, places, -1]), axis=1)


def tokens_so_far(ids: Integers) -> Pairs:
    """Return all tokens of the hypotheses (N, t)."""
    count, length = ids.shape
    return np.stack((np.arange(count).repeat(length), ids.reshape(-1)), axis=1)


def count_loops(ids: Sequence[int]) -> int:
    """Count the places where four tokens or more stand three times in a row.

    Twelve equal tokens are one such place, and so are three equal sentences.
    """
    often = sum(count for count in Counter(ids).values() if count >= _TIMES)
    if often < _TIMES * LOOP_TOKENS:  # nearly always: too few tokens for a loop
        return 0
    row, places = np.array(ids), 0
    for size in range(LOOP_TOKENS, len(row) // _TIMES + 1):
        comes_again = np.cumsum([False, *(row[:-size] == row[size:])])
        further = (_TIMES - 1) * size  # so many tokens in a row must be those of `size` later
        places += int((comes_again[further:] - comes_again[:-further] == further).sum())
    return places
