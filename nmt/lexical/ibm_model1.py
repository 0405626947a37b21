"""A token lexicon learnt from pairs: IBM Model 1 (Brown et al. 1993, section 4.2).

The model generates each target token from one source token or from none, independently of its
context. Expectation maximisation learns the probabilities t(target | source).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.shards import TokenRows

if TYPE_CHECKING:
    from nmt.data.folder import PairDataset  # which loads SentencePiece

Integers = NDArray[np.int64]

_ITERATIONS = 5
LEXICON_STEPS = 2 + _ITERATIONS
_MOST_LINKS = 100_000_000  # a link is a source and a target token of one pair: at least 4 bytes
_CHUNK = 500_000  # links processed at a time: each takes 100 bytes meanwhile


class Lexicon(NamedTuple):
    """t(target | source) of tokens that occur in the same pair, sorted by source token."""

    sources: Integers  # (entries,)
    targets: Integers  # (entries,)
    probs: NDArray[np.float64]  # (entries,); sum to 1 for each source token
    target_counts: Integers  # (target vocabulary,): occurrences of each token

    def best(self, count: int, src_vocab_size: int) -> Integers:
        """Return the likeliest targets (src_vocab_size, count) of each source token, or -1."""
        order = np.lexsort((self.targets, -self.probs, self.sources))
        sources = self.sources[order]
        first = np.searchsorted(sources, np.arange(src_vocab_size))  # first entry of each
        rank = np.arange(len(sources)) - first[sources]
        is_best = rank < count
        best = np.full((src_vocab_size, count), -1)
        best[sources[is_best], rank[is_best]] = self.targets[order][is_best]
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
    # Some links at a time: the keys of their entries, the entry of each, and the first link of each
    # target token.
    chunks: list[tuple[Integers, NDArray[np.int32], Integers]] = []
    for sources, targets, begins in _facing(src, tgt, src_vocab_size):
        keys, entries = np.unique(sources * tgt_vocab_size + targets, return_inverse=True)
        chunks.append((keys, entries.astype(np.int32), begins))
    tell(1)
    all_keys = np.unique(np.concatenate([keys for keys, _, _ in chunks]))  # (entries,)
    links = [
        (np.searchsorted(all_keys, keys)[entries].astype(np.int32), begins)
        for keys, entries, begins in chunks
    ]
    del chunks  # as large as the links
    of_source = all_keys // tgt_vocab_size  # (entries,)
    probs = np.ones(len(all_keys))  # uniform at first
    tell(1)
    for _ in range(_ITERATIONS):
        expected = np.zeros_like(probs)
        for entries, begins in links:
            np.add.at(expected, entries, _shares(probs[entries], begins))
        probs = expected / np.bincount(of_source, expected, src_vocab_size + 1)[of_source]
        tell(1)
    real = of_source < src_vocab_size
    counts = np.bincount(tgt.ids, minlength=tgt_vocab_size)
    return Lexicon(of_source[real], all_keys[real] % tgt_vocab_size, probs[real], counts)


def _links(pairs: PairDataset) -> int:
    src, tgt = pairs.lengths(np.arange(len(pairs)))
    return int((src.astype(np.int64) + 1) @ tgt.astype(np.int64))


def _facing(
    src: TokenRows, tgt: TokenRows, nothing: int
) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Yield the links of some pairs at a time: each target token with each of its source tokens.

    nothing: id of the empty token that is added to every source.
    Yields the source and target token of each link, grouped by target token, and the first link of
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


def _shares(weights: NDArray[np.float64], begins: Integers) -> NDArray[np.float64]:
    """Divide the weights (links,) of each target token by their sum."""
    counts = np.diff(np.append(begins, len(weights)))
    shares: NDArray[np.float64] = weights / np.repeat(np.add.reduceat(weights, begins), counts)
    return shares
