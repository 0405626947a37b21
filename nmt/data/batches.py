"""Which pairs make up which update, and the tensors of one forward pass.

The order of an epoch is a pure function of the data's lengths, the token budget, the seed and the
epoch's number. An update is a set of pairs of similar length whose real tokens fit the budget. How
it is then cut, first over ranks and then into micro-batches, is a matter of hardware and never
changes which pairs belong to it.

Lengths here count the closing eos that both sides get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.errors import UsageError

Indices = NDArray[np.int64]


class Pairs(Protocol):
    """Random access to encoded pairs, as data folders give it."""

    def __len__(self) -> int: ...
    @property
    def src_lengths(self) -> NDArray[np.integer]:
        """Tokens of each pair's source, eos not counted."""

    @property
    def tgt_lengths(self) -> NDArray[np.integer]:
        """Tokens of each pair's target, eos not counted."""

    def src(self, index: int) -> NDArray[np.integer]: ...
    def tgt(self, index: int) -> NDArray[np.integer]: ...


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
        """Return the batch on another device."""
        return Batch(*(t.to(device, non_blocking=True) for t in vars(self).values()))


def collate(pairs: Pairs, indices: Indices) -> Batch:
    """Make the batch of the pairs at `indices`, in that order."""
    src = [pairs.src(int(i)) for i in indices]
    tgt = [pairs.tgt(int(i)) for i in indices]
    tgt_in, tgt_out = _padded(tgt, BOS_ID, None), _padded(tgt, None, EOS_ID)
    return Batch(
        src=_padded(src, None, EOS_ID),
        tgt_in=tgt_in,
        tgt_out=tgt_out,
        target_positions=(tgt_out.flatten() != PAD_ID).nonzero()[:, 0],
    )


def pad_sources(sources: list[list[int]]) -> Tensor:
    """Return encoded source lines as `encode` takes them: (B, S), closed by eos and padded."""
    return _padded([np.asarray(ids, dtype=np.int64) for ids in sources], None, EOS_ID)


def _padded(rows: list[NDArray[np.integer]], first: int | None, last: int | None) -> Tensor:
    """Stack rows of ids (B, longest + 1), with `first` before or `last` behind each."""
    offset = 0 if first is None else 1
    table = np.full((len(rows), max(map(len, rows)) + 1), PAD_ID, dtype=np.int64)
    for line, row in zip(table, rows, strict=True):
        line[offset : offset + len(row)] = row
        if last is not None:
            line[len(row)] = last
    if first is not None:
        table[:, 0] = first
    return torch.from_numpy(table)


@dataclass(frozen=True)
class EpochPlan:
    """The updates of one epoch."""

    order: Indices  # (pairs,) all pairs, those of similar length together
    bounds: Indices  # (updates + 1,) where each cut of `order` begins, and the end
    sequence: Indices  # (updates,) in what order the cuts are visited

    def __len__(self) -> int:
        return len(self.sequence)

    def update(self, index: int) -> Indices:
        """Return the pairs of the epoch's update number `index`."""
        cut = self.sequence[index]
        return self.order[self.bounds[cut] : self.bounds[cut + 1]]


def plan_epoch(pairs: Pairs, *, batch_tokens: int, seed: int, epoch: int) -> EpochPlan:
    """Compute the updates of an epoch.

    Pairs are shuffled, then ordered by classes of target length and, inside a class, by source
    length, ascending and descending in turn: neighbours are then of similar length on both sides,
    also where one class meets the next. The order is cut greedily wherever the budget is full.

    For example, (source, target) lengths (3,4) (9,5) (8,6) (2,7) (7,9) (4,8) fall into target
    classes 4-7 and 8-11 and are ordered (2,7) (3,4) (8,6) (9,5) | (7,9) (4,8).

    Raises:
        UsageError: if one pair alone is above the budget.
    """
    src_lengths, tgt_lengths = _lengths(pairs)
    longest = max(int(src_lengths.max()), int(tgt_lengths.max()))
    if longest > batch_tokens:
        raise UsageError(
            f"batch_tokens is {batch_tokens}, but the longest sentence has {longest} tokens; "
            "raise batch_tokens, or prepare the data with a smaller --max-length"
        )
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(len(pairs))
    order = shuffled[_by_length(src_lengths[shuffled], tgt_lengths[shuffled])]
    bounds = _cut_by_tokens(src_lengths[order], tgt_lengths[order], batch_tokens)
    return EpochPlan(order, bounds, random.permutation(len(bounds) - 1))


def _lengths(pairs: Pairs) -> tuple[Indices, Indices]:
    return pairs.src_lengths.astype(np.int64) + 1, pairs.tgt_lengths.astype(np.int64) + 1


def _by_length(src_lengths: Indices, tgt_lengths: Indices) -> Indices:
    """Return the stable order described in `plan_epoch`."""
    tgt_class = tgt_lengths // 4
    zigzag = np.where(tgt_class % 2 == 1, src_lengths, -src_lengths)
    return np.lexsort((zigzag, tgt_class))


def _cut_by_tokens(src_lengths: Indices, tgt_lengths: Indices, budget: int) -> Indices:
    """Cut a sequence wherever the real tokens of either side would exceed the budget."""
    sums = [np.concatenate(([0], np.cumsum(side))) for side in (src_lengths, tgt_lengths)]
    bounds = [0]
    while bounds[-1] < len(src_lengths):
        start = bounds[-1]
        ends = [np.searchsorted(s, s[start] + budget, side="right") - 1 for s in sums]
        bounds.append(max(start + 1, int(min(ends))))
    return np.asarray(bounds, dtype=np.int64)


def split_update(pairs: Pairs, update: Indices, *, ranks: int) -> list[Indices]:
    """Share an update's pairs among ranks: neighbours stay together, tokens are about equal.

    A rank may get none where there are fewer pairs than ranks.
    """
    costs = (pairs.src_lengths[update] + pairs.tgt_lengths[update]).astype(np.int64) + 2
    middles = np.cumsum(costs) - costs / 2
    owners = (middles * ranks / costs.sum()).astype(np.int64)
    return [update[owners == rank] for rank in range(ranks)]


def micro_batches(pairs: Pairs, update: Indices, micro_batch_tokens: int) -> list[Indices]:
    """Cut pairs into runs whose padded size fits on either side; a longer pair stands alone."""
    src_lengths = pairs.src_lengths[update].astype(np.int64) + 1
    tgt_lengths = pairs.tgt_lengths[update].astype(np.int64) + 1
    lengths = np.maximum(src_lengths, tgt_lengths).tolist()
    cuts: list[int] = []
    start, longest = 0, 0
    for index, length in enumerate(lengths):
        longest = max(longest, length)
        if index > start and longest * (index - start + 1) > micro_batch_tokens:
            cuts.append(index)
            start, longest = index, length
    return [part for part in np.split(update, cuts) if len(part)]


def batches_by_length(pairs: Pairs, micro_batch_tokens: int) -> Iterator[Batch]:
    """Iterate once over all pairs, without randomness: for validation."""
    order = _by_length(*_lengths(pairs))
    for part in micro_batches(pairs, order, micro_batch_tokens):
        yield collate(pairs, part)
