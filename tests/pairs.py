"""Batches of pairs that a test writes down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from nmt.data.batches import Batch, FixedShape, Packed, collate
from nmt.data.shards import TokenRows

Rows = Sequence[Sequence[int]]


def sentences(packed: Packed) -> list[list[int]]:
    """The token ids of each sentence."""
    return [packed.tokens[a:b].tolist() for a, b in pairwise(packed.starts.tolist())]


def batch_of(sources: Rows, targets: Rows, shape: FixedShape | None = None) -> Batch:
    """The batch of pairs of token ids, without bos and eos."""
    src, tgt = (TokenRows.of(rows, token_bytes=2) for rows in (sources, targets))
    return collate(src, tgt, shape)
