"""Encoded pairs and batches that tests make up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches import Batch, FixedShape, Packed, collate
from nmt.data.shards import TokenRows

Rows = Sequence[Sequence[int]]


def sentences(packed: Packed) -> list[list[int]]:
    """The token ids of each sentence."""
    return [packed.tokens[a:b].tolist() for a, b in pairwise(packed.starts.tolist())]


def batch_of(sources: Rows, targets: Rows, shape: FixedShape | None = None) -> Batch:
    """The batch of pairs of token ids, without bos and eos."""
    src, tgt = (TokenRows.from_lists(rows, token_bytes=2) for rows in (sources, targets))
    return collate(src, tgt, shape)


@dataclass
class TextPairs:
    """Pairs of the given ids."""

    pairs: Sequence[tuple[list[int], list[int]]]
    shares: Sequence[tuple[int, float]] = field(default=())

    def __post_init__(self) -> None:
        self.shares = self.shares or ((len(self.pairs), 1.0),)

    def __len__(self) -> int:
        return len(self.pairs)

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        src, tgt = self.rows(indices)
        return src.lengths, tgt.lengths

    def rows(self, indices: NDArray[np.int64]) -> tuple[TokenRows, TokenRows]:
        chosen = [self.pairs[index] for index in indices.tolist()]
        src, tgt = (
            TokenRows.from_lists([pair[side] for pair in chosen], token_bytes=2) for side in (0, 1)
        )
        return src, tgt


@dataclass
class Lengths:
    """Pairs of which only the lengths matter, eos not counted: sources of 5s, targets of 6s."""

    src: NDArray[np.int32]
    tgt: NDArray[np.int32]
    shares: Sequence[tuple[int, float]] = field(default=())

    def __post_init__(self) -> None:
        self.shares = self.shares or ((len(self.src), 1.0),)

    def __len__(self) -> int:
        return len(self.src)

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return self.src[indices], self.tgt[indices]

    def rows(self, indices: NDArray[np.int64]) -> tuple[TokenRows, TokenRows]:
        src, tgt = (
            TokenRows(np.full(int(lengths.sum()), token, np.uint16), lengths)
            for lengths, token in zip(self.lengths(indices), (5, 6), strict=True)
        )
        return src, tgt


def with_eos(*lengths: tuple[int, int]) -> Lengths:
    """Return pairs of these (source, target) lengths with eos counted."""
    src, tgt = np.array(lengths, dtype=np.int32).T
    return Lengths(src - 1, tgt - 1)


def like_wmt(pairs: int, seed: int = 7) -> Lengths:
    """Return lengths as of news text in subwords: about 27 a side, at most 250, correlated."""
    random = np.random.default_rng(seed)
    src = np.clip(random.gamma(2.2, 12.0, pairs), 1, 249)
    tgt = np.clip(src * random.normal(1.05, 0.18, pairs), 1, 249)
    return Lengths(src.astype(np.int32), tgt.astype(np.int32))
