"""Augmentation: training pairs changed on the fly, as raw text that is cut into subwords again.

Which pairs change, and how, is a function of (seed, epoch, pair). So it is the same for any number
of ranks, and a resumed run draws the same. Most pairs keep the token ids of the shards. Only those
that change cost time in the data thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.config import AugmentConfig
from nmt.data import noise
from nmt.data.epochs import Draws, Indices
from nmt.data.folder import DataFolder, PairDataset
from nmt.data.noise import Pair
from nmt.data.shards import TokenRows

_Chosen = npt.NDArray[np.bool_]

_CHANGES: dict[str, Callable[[Pair, random.Random], Pair]] = {
    "placeholders": noise.placeholders,
    "drop_diacritics": noise.drop_diacritics,
    "drop_punctuation": noise.drop_punctuation,
    "typos": noise.typos,
    "upper_case": noise.upper_case,
    "title_case": noise.title_case,
}
"""In the order in which a pair goes through them, after it is merged with the next one."""

_MERGED, _CASING, _CHANGED = range(len(_CHANGES), len(_CHANGES) + 3)
"""What else the random numbers of a pair are for."""


@dataclass(frozen=True)
class Augmenter:
    """Changes pairs of a data folder by the shares of a recipe.

    A pair that becomes blank, or longer than the folder's max_length, stays as it is.
    """

    data: DataFolder
    text: PairDataset
    shares: AugmentConfig

    @classmethod
    def of(cls, data: DataFolder, shares: AugmentConfig) -> Augmenter | None:
        """Return the augmenter that a recipe needs; None if it needs none, or there is no text."""
        if data.train_text is None or not shares.any:
            return None
        return cls(data, data.train_text, shares)

    def __call__(
        self, pairs: Indices, src: TokenRows, tgt: TokenRows, *, seed: int, epoch: int
    ) -> tuple[TokenRows, TokenRows]:
        """Return the rows of these pairs in an epoch; src, tgt: those of the shards, (pairs,)."""
        draws = Draws(pairs, seed, epoch)
        chosen = self._chosen(draws)
        is_merged = draws.uniform(_MERGED) < self.shares.merged
        changed = np.logical_or.reduce([is_merged, *chosen.values()])
        at = np.flatnonzero(changed)
        if not len(at):
            return src, tgt
        lines = self._lines(pairs[at])
        self._merge(lines, pairs[at], is_merged[at])
        seeds = draws.whole(_CHANGED)[at].tolist()
        for row, (place, seed) in enumerate(zip(at.tolist(), seeds, strict=True)):
            draw = random.Random(seed)
            for name, change in _CHANGES.items():
                if chosen[name][place]:
                    lines[row] = change(lines[row], draw)
        return self._encode(lines, at, pairs, src, tgt)

    def _chosen(self, draws: Draws) -> dict[str, _Chosen]:
        """Return which pairs each change is for."""
        shares = self.shares
        chosen = {
            name: draws.uniform(number) < getattr(shares, name)
            for number, name in enumerate(_CHANGES)
        }
        casing = draws.uniform(_CASING)  # a pair is in upper or in title case, not in both
        chosen["upper_case"] = casing < shares.upper_case
        chosen["title_case"] = casing >= 1 - shares.title_case
        return chosen

    def _lines(self, pairs: Indices) -> list[Pair]:
        if not len(pairs):
            return []
        src, tgt = self.text.rows(pairs)
        return list(zip(src.text(), tgt.text(), strict=True))

    def _merge(self, lines: list[Pair], pairs: Indices, is_merged: _Chosen) -> None:
        """Join chosen pairs with the next line of their corpus, if that is a pair, too."""
        rows = [row for row in np.flatnonzero(is_merged).tolist() if self._has_next(pairs[row])]
        for row, following in zip(rows, self._lines(pairs[rows] + 1), strict=True):
            lines[row] = noise.merged(lines[row], following)

    def _has_next(self, pair: int) -> bool:
        if pair + 1 >= len(self.text):
            return False
        corpus, line = self.text.origin(int(pair))
        return self.text.origin(int(pair) + 1) == (corpus, line + 1)

    def _encode(
        self, lines: Sequence[Pair], at: Indices, pairs: Indices, src: TokenRows, tgt: TokenRows
    ) -> tuple[TokenRows, TokenRows]:
        """Return the rows, where those at `at` are of the lines; too long ones stay."""
        new_src, new_tgt = self.data.encode(self.text.corpora(pairs[at]), lines)
        longest = self.data.info.max_length
        fits = np.array(
            [
                bool(line[0].strip() and src and tgt) and max(len(src), len(tgt)) <= longest
                for line, src, tgt in zip(lines, new_src, new_tgt, strict=True)
            ]
        )
        # The new rows stand after those of the shards, and take their places.
        order = np.arange(len(pairs))
        order[at[fits]] = len(pairs) + np.flatnonzero(fits)
        whole_src, whole_tgt = (
            TokenRows.join([old, TokenRows.of(new, token_bytes=old.ids.itemsize)]).take(order)
            for old, new in ((src, new_src), (tgt, new_tgt))
        )
        return whole_src, whole_tgt
