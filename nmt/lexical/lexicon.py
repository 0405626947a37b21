"""A token lexicon learnt from pairs: IBM Model 1 (Brown et al. 1993, section 4.2).

The model generates each target token from one source token or from none, independently of its
context. Expectation maximisation learns the probabilities t(target | source).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.folder import PairDataset
from nmt.data.shards import TokenRows

Integers = NDArray[np.int64]

_ITERATIONS = 5
LEXICON_STEPS = 2 + _ITERATIONS
_MOST_LINKS = 100_000_000  # a link is a source and a target token of one pair: at least 4 bytes
_CHUNK = 4_000_000  # links processed at a time


@dataclass(frozen=True)
class Lexicon:
    """t(target | source) of tokens that occur in the same pair, sorted by source token."""

    sources: Integers  # (entries,)
    targets: Integers  # (entries,)
    probs: NDArray[np.float64]  # (entries,); sum to 1 for each source token
    target_counts: Integers  # (target vocabulary,): occurrences of each token

    def best(self, count: int, src_vocab_size: int) -> Integers:
        """Return the most probable targets (src_vocab_size, count) of each source token, or -1.

        Ties go by id.
        """
        order = np.lexsort((self.targets, -self.probs, self.sources))
        sources = self.sources[order]
        first = np.searchsorted(sources, np.arange(src_vocab_size))  # first entry of each
        rank = np.arange(len(sources)) - first[sources]
        kept = rank < count
        best = np.full((src_vocab_size, count), -1)
        best[sources[kept], rank[kept]] = self.targets[order][kept]
        return best


def learn_lexicon(
    pairs: PairDataset,
    src_vocab_size: int,
    tgt_vocab_size: int,
    *,
    backward: bool = False,
    most_links: int = _MOST_LINKS,
    on_progress: Callable[[int], object] | None = None,
) -> Lexicon:
    """Learn from all pairs, or from evenly spaced ones if memory is too small for all.

    Args:
        pairs: token ids of both sides.
        src_vocab_size, tgt_vocab_size: sizes of the vocabularies.
        backward: learn t(source | target). In the result, source and target then change places.
        most_links: bound on the sum over pairs of source tokens times target tokens.
        on_progress: called with 1 after each of `LEXICON_STEPS` steps.
    """
    step = max(1, -(-_links(pairs) // most_links))
    src, tgt = pairs.rows(np.arange(0, len(pairs), step))
    if backward:
        src, tgt, src_vocab_size, tgt_vocab_size = tgt, src, tgt_vocab_size, src_vocab_size
    return learn_from_rows(src, tgt, src_vocab_size, tgt_vocab_size, on_progress=on_progress)


def learn_from_rows(
    src: TokenRows,
    tgt: TokenRows,
    src_vocab_size: int,
    tgt_vocab_size: int,
    *,
    on_progress: Callable[[int], object] | None = None,
) -> Lexicon:
    """Learn from these rows, whose ids may be of tokens or of words; see `learn_lexicon`."""
    tell = on_progress or (lambda _: None)
    # For each chunk: the keys of its entries, the entry of each link, and the first link of each
    # target token.
    found: list[tuple[Integers, NDArray[np.int32], Integers]] = []
    for sources, targets, begins in _facing(src, tgt, src_vocab_size):
        own, entries = np.unique(sources * tgt_vocab_size + targets, return_inverse=True)
        found.append((own, entries.astype(np.int32), begins))
    tell(1)
    keys = np.unique(np.concatenate([own for own, _, _ in found]))  # (entries,)
    chunks = [
        (torch.from_numpy(np.searchsorted(keys, own)[entries].astype(np.int32)), begins)
        for own, entries, begins in found
    ]
    del found  # as large as the chunks
    of_source = torch.from_numpy(keys // tgt_vocab_size)  # (entries,)
    probs = torch.ones(len(keys), dtype=torch.float64)  # uniform at first
    tell(1)
    for _ in range(_ITERATIONS):
        expected = torch.zeros_like(probs)
        for entries, begins in chunks:
            expected.index_add_(0, entries, _shares(probs[entries], begins))
        sums = torch.zeros(src_vocab_size + 1, dtype=torch.float64)
        sums.index_add_(0, of_source, expected)
        probs = expected / sums[of_source]
        tell(1)
    real = of_source.numpy() < src_vocab_size
    return Lexicon(
        of_source.numpy()[real],
        keys[real] % tgt_vocab_size,
        probs.numpy()[real],
        np.bincount(tgt.ids, minlength=tgt_vocab_size),
    )


def _links(pairs: PairDataset) -> int:
    src, tgt = pairs.lengths(np.arange(len(pairs)))
    return int((src.astype(np.int64) + 1) @ tgt.astype(np.int64))


def _facing(
    src: TokenRows, tgt: TokenRows, nothing: int
) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Yield the links of some pairs at a time: each target token with each of its source tokens.

    Args:
        src, tgt: the pairs' tokens.
        nothing: id of the empty token that is added to every source.

    Yields:
        The source and target token of each link, grouped by target token, and the first link of
        each target token.
    """
    links = np.cumsum((src.lengths.astype(np.int64) + 1) * tgt.lengths)
    bounds = np.searchsorted(links, np.arange(_CHUNK, int(links[-1]) + _CHUNK, _CHUNK), "right")
    for rows in np.split(np.arange(len(src)), np.unique(bounds)):
        if not len(rows):
            continue
        theirs, ours = src.take(rows), tgt.take(rows)
        # Put the empty token at the start of each source.
        first = np.cumsum(theirs.lengths) - theirs.lengths
        sources = np.insert(theirs.ids.astype(np.int64), first, nothing)
        lengths = theirs.lengths.astype(np.int64) + 1
        starts = np.repeat(np.cumsum(lengths) - lengths, ours.lengths)  # of each target token
        counts = np.repeat(lengths, ours.lengths)  # links of each target token
        begins = np.cumsum(counts) - counts
        places = np.repeat(starts - begins, counts) + np.arange(int(counts.sum()))
        yield sources[places], np.repeat(ours.ids.astype(np.int64), counts), begins


def _shares(weights: Tensor, begins: Integers) -> Tensor:
    """Divide the weights (links,) of each target token by their sum."""
    sums = np.add.reduceat(weights.numpy(), begins)
    counts = np.diff(np.append(begins, len(weights)))
    return weights / torch.from_numpy(np.repeat(sums, counts))
