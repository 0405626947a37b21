"""Augmentation: training pairs changed on the fly, as raw text that is cut into subwords again.

Which pairs change, and how, is a function of (seed, epoch, pair). So it is the same for any number
of ranks, and a resumed run draws the same. Most pairs keep the token ids of the shards. Only those
that change cost time in the data thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import compress

import numpy as np
import numpy.typing as npt

from nmt.config.training_config import AugmentConfig
from nmt.data import noise
from nmt.data.epochs import Indices, random_bits, random_shares
from nmt.data.folder import DataFolder, PairDataset
from nmt.data.noise import Pair
from nmt.data.shards import TokenRows

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


Augment = Callable[[Indices, TokenRows, TokenRows, int, int], tuple[TokenRows, TokenRows]]
"""Returns the rows of some pairs in an epoch, given the pairs, their rows in the shards, the seed
and the epoch."""


def augment_by(data: DataFolder, shares: AugmentConfig) -> Augment | None:
    """Return what changes pairs of a data folder by the shares of a recipe; None if nothing does.

    A pair that becomes blank, or longer than the folder's max_length, stays as it is.
    """
    if data.train_text is None or not shares.any:
        return None
    return partial(_augmented, data, data.train_text, shares)


def _augmented(
    data: DataFolder,
    text: PairDataset,
    shares: AugmentConfig,
    pairs: Indices,
    src: TokenRows,
    tgt: TokenRows,
    seed: int,
    epoch: int,
) -> tuple[TokenRows, TokenRows]:
    chosen = {
        name: random_shares(pairs, seed, epoch, number) < getattr(shares, name)
        for number, name in enumerate(_CHANGES)
    }
    casing = random_shares(pairs, seed, epoch, _CASING)
    chosen["upper_case"] = casing < shares.upper_case
    chosen["title_case"] = casing >= 1 - shares.title_case  # never both
    is_merged = random_shares(pairs, seed, epoch, _MERGED) < shares.merged
    changed = np.flatnonzero(np.logical_or.reduce([is_merged, *chosen.values()]))
    if not len(changed):
        return src, tgt
    lines = _lines(text, pairs[changed])
    _merge_with_next(lines, text, pairs[changed], is_merged[changed])
    seeds = random_bits(pairs, seed, epoch, _CHANGED)[changed].tolist()
    for row, (place, seed_of_pair) in enumerate(zip(changed.tolist(), seeds, strict=True)):
        draw = random.Random(seed_of_pair)
        for name, change in _CHANGES.items():
            if chosen[name][place]:
                lines[row] = change(lines[row], draw)
    new_src, new_tgt = data.encode(text.corpora(pairs[changed]), lines)
    longest = data.info.max_length
    fits = [
        bool(line[0].strip() and src and tgt) and max(len(src), len(tgt)) <= longest
        for line, src, tgt in zip(lines, new_src, new_tgt, strict=True)
    ]
    return (
        src.replaced(changed[fits].tolist(), list(compress(new_src, fits))),
        tgt.replaced(changed[fits].tolist(), list(compress(new_tgt, fits))),
    )


def _lines(text: PairDataset, pairs: Indices) -> list[Pair]:
    if not len(pairs):
        return []
    src, tgt = text.rows(pairs)
    return list(zip(src.text(), tgt.text(), strict=True))


def _merge_with_next(
    lines: list[Pair], text: PairDataset, pairs: Indices, is_merged: npt.NDArray[np.bool_]
) -> None:
    """Join chosen pairs with the next line of their corpus, if that is a pair, too."""
    rows = [row for row in np.flatnonzero(is_merged).tolist() if _has_next(text, int(pairs[row]))]
    for row, following in zip(rows, _lines(text, pairs[rows] + 1), strict=True):
        lines[row] = noise.merged(lines[row], following)


def _has_next(text: PairDataset, pair: int) -> bool:
    if pair + 1 >= len(text):
        return False
    corpus, line = text.origin(pair)
    return text.origin(pair + 1) == (corpus, line + 1)
