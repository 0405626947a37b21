"""The tensors of one forward pass, and how an update is cut into them.

How an update is cut, first over ranks and then into micro-batches, is a matter of hardware and
never changes which pairs belong to it. Lengths here count the closing eos that both sides get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.data.epochs import Indices, Pairs, order_by_length
from nmt.data.shards import Lengths, TokenRows
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID

_NONE: Indices = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Packed:
    """Sentences one after the other, with no padding between them."""

    tokens: Tensor  # (n,) int64
    sentences: Tensor  # (n,) int64: the number of each token's sentence
    positions: Tensor  # (n,) int64: where each token stands in its sentence
    starts: Tensor  # (B + 1,) int32: where each sentence begins, and where the last one ends
    longest: int
    """Tokens of the longest sentence, or more."""

    def to(self, device: torch.device) -> Packed:
        """Return the sentences on another device; a GPU copies them while the CPU goes on."""
        fields = self.tokens, self.sentences, self.positions, self.starts
        tokens, sentences, positions, starts = (_moved(tensor, device) for tensor in fields)
        return Packed(tokens, sentences, positions, starts, self.longest)


@dataclass(frozen=True)
class Batch:
    """The tensors of one forward pass (a micro-batch) over B pairs."""

    src: Packed  # tokens, eos
    tgt_in: Packed  # bos, tokens
    targets: Tensor  # (num_tokens,) int64: tokens, eos

    @property
    def num_tokens(self) -> int:
        """Real target tokens, eos counted."""
        return len(self.targets)

    @property
    def padded_tokens(self) -> int:
        """Tokens of both sides with what `FixedShape` has added."""
        return len(self.src.tokens) + len(self.tgt_in.tokens)

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device; a GPU copies it while the CPU goes on."""
        return Batch(self.src.to(device), self.tgt_in.to(device), _moved(self.targets, device))


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and not tensor.is_cuda:  # copies only from memory that stays put
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True)
class FixedShape:
    """Makes every batch one of so many tokens a side, by pairs of padding behind the real ones.

    What is compiled for one shape is compiled once.
    """

    tokens: int
    longest: int  # tokens that a sentence may have

    @classmethod
    def for_up_to(cls, tokens: int, longest: int) -> FixedShape:
        """Return the shape that takes up to so many real tokens on either side."""
        # One token in `longest` more, so that each pair of padding has one on both sides.
        roomy = (tokens + 1) * longest // (longest - 1) + 1
        return cls(-(-roomy // 64) * 64, longest)  # GPUs like multiples of 64

    def padding(self, src_tokens: int, tgt_tokens: int) -> tuple[Indices, Indices]:
        """Return the lengths of the pairs of padding beside so many real tokens."""
        missing = [self.tokens - tokens for tokens in (src_tokens, tgt_tokens)]
        pairs = -(-max(missing) // self.longest)
        src, tgt = (np.diff(np.arange(pairs + 1) * tokens // max(1, pairs)) for tokens in missing)
        return src, tgt


def collate(src: TokenRows, tgt: TokenRows, shape: FixedShape | None = None) -> Batch:
    """Make the batch of some pairs, in their order."""
    sizes = [len(rows.ids) + len(rows) for rows in (src, tgt)]
    src_padding, tgt_padding = shape.padding(*sizes) if shape else (_NONE, _NONE)
    longest = shape.longest if shape else 0
    return Batch(
        src=_packed(src, EOS_ID, src_padding, longest),
        tgt_in=_packed(tgt, BOS_ID, tgt_padding, longest),
        targets=torch.from_numpy(_with_ends(tgt, EOS_ID)),
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


def pack_sources(sources: Sequence[Sequence[int]]) -> Packed:
    """Return encoded source lines as `encode` takes them, each closed by eos."""
    return _packed(TokenRows.of(sources, token_bytes=4), EOS_ID, _NONE, 0)


def _packed(rows: TokenRows, end: int, padding: Indices, longest: int) -> Packed:
    """Pack rows with bos before or eos behind each, then sentences of padding.

    Args:
        rows: token ids.
        end: the bos or eos.
        padding: lengths of the sentences of padding.
        longest: at least so much is what the result calls longest.
    """
    lengths = np.concatenate((rows.lengths.astype(np.int64) + 1, padding))
    starts = np.concatenate(([0], np.cumsum(lengths)))
    own = _with_ends(rows, end)
    tokens = np.pad(own, (0, starts[-1] - len(own)), constant_values=PAD_ID)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    return Packed(
        tokens=torch.from_numpy(tokens),
        sentences=torch.from_numpy(sentences),
        positions=torch.from_numpy(np.arange(len(tokens)) - starts[sentences]),
        starts=torch.from_numpy(starts.astype(np.int32)),
        longest=max(longest, int(lengths.max())),
    )


def _with_ends(rows: TokenRows, end: int) -> Indices:
    """Return all ids with a bos before or an eos behind each row: (tokens + rows,)."""
    closing = np.cumsum(rows.lengths, dtype=np.int64)  # where each row ends among the ids
    return np.insert(
        rows.ids.astype(np.int64), closing - rows.lengths if end == BOS_ID else closing, end
    )


def split_update(src_lengths: Lengths, tgt_lengths: Lengths, *, world_size: int) -> list[Indices]:
    """Share an update's pairs among ranks: neighbours stay together, tokens are about equal.

    Returns the places in the update that each rank gets, and none where there are fewer pairs than
    ranks.
    """
    costs = (src_lengths + tgt_lengths).astype(np.int64) + 2
    middles = np.cumsum(costs) - costs / 2
    owners = (middles * world_size / costs.sum()).astype(np.int64)
    return [np.flatnonzero(owners == rank) for rank in range(world_size)]


def micro_batches(
    src_lengths: Lengths,
    tgt_lengths: Lengths,
    micro_batch_tokens: int,
    *,
    in_tables: bool = True,
) -> list[Indices]:
    """Cut pairs into runs of at most so many tokens on either side; a longer pair stands alone.

    There are as few runs as can be, and they are about equal: products over a small rest would be
    slow.

    Args:
        src_lengths, tgt_lengths: (pairs,), eos not counted.
        micro_batch_tokens: the bound.
        in_tables: whether attention lays sentences out in tables; padding there may take a run
            above the bound by a quarter.

    Returns:
        The places that each run holds.
    """
    lengths = list(zip((src_lengths + 1).tolist(), (tgt_lengths + 1).tolist(), strict=True))
    cuts = _cut(lengths, micro_batch_tokens, in_tables)
    # Find the smallest bound that takes no more runs: too_small < bound <= enough.
    too_small, enough = max(map(max, lengths), default=1) - 1, micro_batch_tokens
    while cuts and enough - too_small > 1:
        bound = (too_small + enough) // 2
        tried = _cut(lengths, bound, in_tables)
        if len(tried) > len(cuts):
            too_small = bound
        else:
            cuts, enough = tried, bound
    return [part for part in np.split(np.arange(len(lengths)), cuts) if len(part)]


def _cut(lengths: list[tuple[int, int]], bound: int, in_tables: bool) -> list[int]:
    """Return the places where a run of pairs has to end, because one more would exceed a bound."""
    cuts: list[int] = []
    start = src_tokens = tgt_tokens = longest = 0
    for index, (src, tgt) in enumerate(lengths):
        src_tokens, tgt_tokens, longest = src_tokens + src, tgt_tokens + tgt, max(longest, src, tgt)
        too_wide = in_tables and longest * (index - start + 1) > 1.25 * bound
        if index > start and (too_wide or max(src_tokens, tgt_tokens) > bound):
            cuts.append(index)
            start, src_tokens, tgt_tokens, longest = index, src, tgt, max(src, tgt)
    return cuts


def parts_by_length(pairs: Pairs, micro_batch_tokens: int) -> list[Indices]:
    """Cut all pairs into micro-batches, without randomness: for validation."""
    src_lengths, tgt_lengths = pairs.lengths(np.arange(len(pairs)))
    order = order_by_length(src_lengths.astype(np.int64) + 1, tgt_lengths.astype(np.int64) + 1)
    parts = micro_batches(src_lengths[order], tgt_lengths[order], micro_batch_tokens)
    return [order[part] for part in parts]
