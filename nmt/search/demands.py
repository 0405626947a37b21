"""What is demanded of translations whatever their probability: beginnings and lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.vocabulary import EOS_ID
from nmt.search.engine import Source
from nmt.search.options import SearchOptions

Integers = NDArray[np.int64]

FREE = -1  # no token is demanded


class Demands:
    """What is demanded of the translations of B sources, which are all equally long so far."""

    def __init__(self, sources: Sequence[Source], options: SearchOptions) -> None:
        """Take the prefixes from the sources, and the lengths from the options.

        A prefix may be longer than a translation of its own source's length could be.
        """
        self.longest: Integers = np.array(
            [
                max(
                    options.longest(len(source.ids), is_in_word=source.is_in_word),
                    len(source.prefix),
                )
                for source in sources
            ]
        )  # (B,)
        self._fewest = options.min_tokens
        prefixes = max(len(source.prefix) for source in sources)
        self._prefixes: Integers = np.full((len(sources), prefixes), FREE)  # (B, P)
        for row, source in enumerate(sources):
            self._prefixes[row, : len(source.prefix)] = source.prefix

    def token(self, length: int) -> Integers:
        """Return the token (B,) that each translation must take at this length, or `FREE`."""
        tokens = np.where(self.longest <= length, EOS_ID, FREE)
        if length < self._prefixes.shape[1]:
            given = self._prefixes[:, length]
            tokens = np.where(given == FREE, tokens, given)
        return tokens

    def may_end(self, length: int) -> bool:
        """Tell whether translations may be of this length."""
        return length >= self._fewest

    def select(self, rows: Integers) -> None:
        """Keep some sources, in this order."""
        self.longest, self._prefixes = self.longest[rows], self._prefixes[rows]
