"""The tensors of one forward pass, and how an update is cut into them.

How an update is cut, first over ranks and then into micro-batches, is a matter of hardware and
never changes which pairs belong to it. Lengths here count the closing eos that both sides get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.data.epochs import Pairs, order_by_length
from nmt.data.permutation import Indices
from nmt.data.shards import Lengths, TokenRows
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """The tensors of one forward pass (a micro-batch)."""

    src: Tensor  # (B, S) int64: tokens, eos, padding
    tgt_in: Tensor  # (B, T) int64: bos, tokens, padding
    tgt_out: Tensor  # (B, T) int64: tokens, eos, padding
    target_positions: Tensor  # (num_tokens,) int64: where tgt_out, flattened, is real

    @property
    def num_tokens(self) -> int:
        """Real target tokens, eos counted."""
        return len(self.target_positions)

    @property
    def targets(self) -> Tensor:
        """The real target tokens (num_tokens,), row by row."""
        return self.tgt_out.flatten().index_select(0, self.target_positions)

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device; a GPU copies it while the CPU goes on."""
        tensors = list(vars(self).values())
        if device.type == "cuda":  # which can only copy from memory that stays in its place
            tensors = [t if t.is_cuda else t.pin_memory() for t in tensors]
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in tensors))


def collate(src: TokenRows, tgt: TokenRows) -> Batch:
    """Make the batch of some pairs, in their order."""
    tgt_out = _padded(tgt, None, EOS_ID)
    return Batch(
        src=torch.from_numpy(_padded(src, None, EOS_ID)),
        tgt_in=torch.from_numpy(_padded(tgt, BOS_ID, None)),
        tgt_out=torch.from_numpy(tgt_out),
        target_positions=torch.from_numpy(np.flatnonzero(tgt_out != PAD_ID)),
    )


@dataclass(frozen=True)
class LengthSums:
    """Sums over pairs of S and T, the source's and the target's tokens with their eos.

    They are all that the work of a model depends on: what it does to each token goes by the first
    two, attention by the products.
    """

    src: int = 0
    tgt: int = 0
    src_src: int = 0
    tgt_tgt: int = 0
    src_tgt: int = 0

    @classmethod
    def of(cls, src_lengths: Lengths, tgt_lengths: Lengths) -> LengthSums:
        """Sum over pairs of these lengths (pairs,), eos not counted."""
        src, tgt = (lengths.astype(np.int64) + 1 for lengths in (src_lengths, tgt_lengths))
        return cls(int(src.sum()), int(tgt.sum()), int(src @ src), int(tgt @ tgt), int(src @ tgt))

    def __add__(self, other: LengthSums) -> LengthSums:
        """Return the sums over the pairs of both."""
        return LengthSums(
            *(own + more for own, more in zip(astuple(self), astuple(other), strict=True))
        )


def pad_sources(sources: list[list[int]]) -> Tensor:
    """Return encoded source lines as `encode` takes them: (B, S), closed by eos and padded."""
    return torch.from_numpy(_padded(TokenRows.of(sources, token_bytes=4), None, EOS_ID))


def _padded(rows: TokenRows, first: int | None, last: int | None) -> Indices:
    """Stack rows of ids (B, longest + 1), with `first` before or `last` behind each."""
    offset = 0 if first is None else 1
    lengths = rows.lengths.astype(np.int64)
    table = np.full((len(rows), int(lengths.max()) + 1), PAD_ID, dtype=np.int64)
    columns = np.arange(table.shape[1]) - offset
    table[(columns >= 0) & (columns < lengths[:, None])] = rows.ids
    if first is not None:
        table[:, 0] = first
    if last is not None:
        table[np.arange(len(rows)), lengths] = last
    return table


def split_update(src_lengths: Lengths, tgt_lengths: Lengths, *, ranks: int) -> list[Indices]:
    """Share an update's pairs among ranks: neighbours stay together, tokens are about equal.

    Returns the places in the update that each rank gets, and none where there are fewer pairs than
    ranks.
    """
    costs = (src_lengths + tgt_lengths).astype(np.int64) + 2
    middles = np.cumsum(costs) - costs / 2
    owners = (middles * ranks / costs.sum()).astype(np.int64)
    return [np.flatnonzero(owners == rank) for rank in range(ranks)]


def micro_batches(
    src_lengths: Lengths, tgt_lengths: Lengths, micro_batch_tokens: int
) -> list[Indices]:
    """Cut pairs into runs whose padded size fits on either side; a longer pair stands alone.

    There are as few runs as can be, and they are about equal: products over a small rest would be
    slow.

    Returns the places that each run holds.
    """
    lengths = (np.maximum(src_lengths, tgt_lengths) + 1).tolist()
    cuts = _cut_by_padded_size(lengths, micro_batch_tokens)
    # Find the smallest bound that takes no more runs: too_small < bound <= enough.
    too_small, enough = max(lengths, default=1) - 1, micro_batch_tokens
    while cuts and enough - too_small > 1:
        bound = (too_small + enough) // 2
        tried = _cut_by_padded_size(lengths, bound)
        if len(tried) > len(cuts):
            too_small = bound
        else:
            cuts, enough = tried, bound
    return [part for part in np.split(np.arange(len(lengths)), cuts) if len(part)]


def _cut_by_padded_size(lengths: list[int], bound: int) -> list[int]:
    """Return the places where a run of pairs has to end, because one more would exceed a bound."""
    cuts: list[int] = []
    start, longest = 0, 0
    for index, length in enumerate(lengths):
        longest = max(longest, length)
        if index > start and longest * (index - start + 1) > bound:
            cuts.append(index)
            start, longest = index, length
    return cuts


def batches_by_length(pairs: Pairs, micro_batch_tokens: int) -> Iterator[Batch]:
    """Iterate once over all pairs, without randomness: for validation."""
    src_lengths, tgt_lengths = pairs.lengths(np.arange(len(pairs)))
    order = order_by_length(src_lengths.astype(np.int64) + 1, tgt_lengths.astype(np.int64) + 1)
    for part in micro_batches(src_lengths[order], tgt_lengths[order], micro_batch_tokens):
        yield collate(*pairs.rows(order[part]))
