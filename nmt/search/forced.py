"""Forced decoding: run a model on sources with given targets, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from nmt.data.batches import Batch, collate, micro_batches
from nmt.data.epochs import Indices, order_by_length
from nmt.data.shards import TokenRows
from nmt.models.device import memory_errors
from nmt.search.engine import Ids

T = TypeVar("T")

Pair = tuple[Ids, Ids]
"""Source and target without eos."""

BATCH_TOKENS = 4_096  # of either side


def forced(
    pairs: Sequence[Pair],
    of_batch: Callable[[Batch], Sequence[T]],
    device: torch.device,
    *,
    on_progress: Callable[[int], object] | None = None,
) -> list[T | None]:
    """Compute something for each pair, in batches of similar length.

    Args:
        pairs: in any order.
        of_batch: returns a result for each pair of a batch.
        device: of the batches.
        on_progress: called with the number of pairs just done.

    Returns:
        The result of each pair, in order. None if the pair by itself does not fit into memory.
    """
    if not pairs:
        return []
    src, tgt = (TokenRows.of(side, token_bytes=4) for side in zip(*pairs, strict=True))
    order = order_by_length(src.lengths.astype(np.int64) + 1, tgt.lengths.astype(np.int64) + 1)

    def results_of(part: Indices) -> Iterator[tuple[int, T | None]]:
        found: Sequence[T | None]
        try:
            with memory_errors():
                found = of_batch(collate(src.take(part), tgt.take(part)).to(device))
        except MemoryError:
            if len(part) > 1:
                for half in np.array_split(part, 2):
                    yield from results_of(half)
                return
            found = [None]
        if on_progress is not None:
            on_progress(len(part))
        yield from zip(part.tolist(), found, strict=True)

    results: dict[int, T | None] = {}
    for part in micro_batches(src.lengths[order], tgt.lengths[order], BATCH_TOKENS):
        results.update(results_of(order[part]))
    return [results[number] for number in range(len(pairs))]
