"""Batches of pairs that a test writes down."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.data.batches import Batch, FixedShape, collate
from nmt.data.shards import TokenRows

Rows = Sequence[Sequence[int]]


def batch_of(sources: Rows, targets: Rows, shape: FixedShape | None = None) -> Batch:
    """The batch of pairs of token ids, without bos and eos."""
    src, tgt = (TokenRows.of(rows, token_bytes=2) for rows in (sources, targets))
    return collate(src, tgt, shape)
