"""How often each word occurs in the clean text: all that learning BPE needs to know of it.

Merges join characters of a word, so SentencePiece learns the same pieces from a table of words and
counts as from the text (Sennrich et al. 2016, section 3.2), for a fifth of the work.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

MOST_CHARACTERS = 20_000_000
"""Of different words that are held in memory: five times as many as two million lines of Europarl
have. The trainer takes some 60 bytes for each."""


class WordCounts:
    """Words, and how often each occurs.

    If there are too many different ones, half of the rarest are left out, and the other half counts
    double. So memory is bounded, totals stay the same on average, and text without spaces, whose
    lines are words, becomes a random sample. The choice depends on the words and nothing else.
    """

    def __init__(self, *, most_characters: int = MOST_CHARACTERS) -> None:
        self.counts: dict[str, int] = {}
        self._characters = 0
        self._most_characters = most_characters
        self._halvings = 0

    def add(self, words: Mapping[str, int], times: int) -> None:
        """Count words of a block, each as often as `times` says."""
        counts = self.counts
        for word, count in words.items():
            if word in counts:
                counts[word] += times * count
            else:
                counts[word] = times * count
                self._characters += len(word)
        while self._characters > self._most_characters:
            self._halve()

    def _halve(self) -> None:
        rare = int(np.median(list(self.counts.values())))
        kept = {}
        for word, count in self.counts.items():
            if count > rare:
                kept[word] = count
            elif zlib.crc32(word.encode()) >> self._halvings % 32 & 1:
                kept[word] = 2 * count
        self.counts = kept
        self._characters = sum(map(len, kept))
        self._halvings += 1
