"""Batches: the tensors of one forward pass, and how an update is split into them.

An update has sentences of all lengths. Inside it they are sorted by length, dealt out to ranks and
cut into micro-batches. This split depends on the hardware and never changes which pairs belong to
the update.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.epochs import Indices, cut_by_tokens
from nmt.data.shards import Lengths, TokenRows
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID

_NONE: Indices = np.zeros(0, dtype=np.int64)

NO_LINK = -1  # in place of the position of a source token


class _Work(NamedTuple):
    """The work of attention in padded groups, in units of one query and key."""

    position: int  # to lay out a position by heads and back
    group: int  # to begin a group


_ON_CPU, _ON_GPU = _Work(20, 10_000), _Work(80, 1_500_000)
"""On a GPU each group launches a dozen kernels for an attention, forward and backward, which take
longer than the padding that they save. These values give the shortest updates by an estimate for an
H100. Half or twice as much for a group makes them at most 5 % longer."""


class PaddedGroup(NamedTuple):
    """Consecutive sentences of similar length, which models pad to one length."""

    sentences: slice
    tokens: slice  # of these sentences
    longest: int  # an upper bound on the tokens of a sentence


@dataclass(frozen=True)
class Packed:
    """Sentences one after the other, without padding between them.

    For example, the sources [7, 8, 9] and [5], each with eos (3):

        tokens     7 8 9 3 5 3
        sentences  0 0 0 0 1 1
        positions  0 1 2 3 0 1
        starts     0       4   6
    """

    tokens: Tensor  # (n,) int64
    sentences: Tensor  # (n,) int64: each token's sentence
    positions: Tensor  # (n,) int64: each token's position in its sentence
    starts: Tensor  # (B + 1,) int32: the start of each sentence, and the end of the last one
    longest: int  # an upper bound on the tokens of a sentence
    groups: tuple[PaddedGroup, ...]
    """All sentences; the two sides of a batch have the same number of groups and of sentences in
    each."""

    def in_one_group(self) -> Packed:
        """Return the same sentences as one group."""
        sentences, tokens = slice(0, len(self.starts) - 1), slice(0, len(self.tokens))
        return replace(self, groups=(PaddedGroup(sentences, tokens, self.longest),))

    def without_last(self) -> Packed:
        """Return the sentences without the last token of each."""
        # The number of tokens is known, so tensors without content have their shape, too.
        device, count = self.starts.device, len(self.tokens) - len(self.starts) + 1
        starts = self.starts - torch.arange(len(self.starts), device=device, dtype=torch.int32)
        numbers = torch.arange(count, device=device)
        sentences = torch.searchsorted(starts[1:].long(), numbers, right=True)
        tokens, positions = (field[numbers + sentences] for field in (self.tokens, self.positions))
        groups = []
        for spans, whole, longest in self.groups:
            own = slice(whole.start - spans.start, whole.stop - spans.stop)
            groups.append(PaddedGroup(spans, own, longest - 1))
        return Packed(tokens, sentences, positions, starts, self.longest - 1, tuple(groups))

    def to(self, device: torch.device) -> Packed:
        """Return the sentences on another device; a GPU copies them while the CPU goes on."""
        fields = self.tokens, self.sentences, self.positions, self.starts
        tokens, sentences, positions, starts = (_moved(tensor, device) for tensor in fields)
        return Packed(tokens, sentences, positions, starts, self.longest, self.groups)


@dataclass(frozen=True)
class Links:
    """Which source token each target token is linked with, for the pairs of a batch.

    The groups cover the same pairs on both sides, and no padding. They are not those of `Packed` on
    a GPU, whose attention needs none.
    """

    sources: Tensor  # (num_tokens,) int64: position in the source sentence, or NO_LINK
    src: tuple[PaddedGroup, ...]
    tgt: tuple[PaddedGroup, ...]

    def to(self, device: torch.device) -> Links:
        """Return the links on another device; a GPU copies them while the CPU goes on."""
        return replace(self, sources=_moved(self.sources, device))


@dataclass(frozen=True)
class Batch:
    """The tensors of one forward pass (a micro-batch) over B pairs."""

    src: Packed  # tokens, eos
    tgt_in: Packed  # bos, tokens
    targets: Tensor  # (num_tokens,) int64: tokens, eos
    links: Links | None = None  # of `targets`, for guided alignment

    @property
    def num_tokens(self) -> int:
        """Real target tokens, including eos."""
        return len(self.targets)

    @property
    def padded_tokens(self) -> int:
        """Tokens of both sides, including the padding of `FixedShape`."""
        return len(self.src.tokens) + len(self.tgt_in.tokens)

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device; a GPU copies it while the CPU goes on."""
        sides, targets = (self.src.to(device), self.tgt_in.to(device)), _moved(self.targets, device)
        return Batch(*sides, targets, self.links and self.links.to(device))


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and not tensor.is_cuda:
        tensor = tensor.pin_memory()  # only that is copied in the background
    return tensor.to(device, non_blocking=True)


_SHORT = 64
"""The most tokens of a sentence of padding, and the lowest bound on the tokens of a sentence."""


class SplitBounds(NamedTuple):
    """How finely updates are split."""

    world_size: int  # the ranks that share an update
    micro_batch_tokens: int  # about the most tokens of a micro-batch on either side
    longest: int  # the tokens of the longest sentence of the data, with eos


class FixedShape(NamedTuple):
    """Pads all batches to the same tokens per side and the same number of sentences.

    So a model is compiled once for each bound on lengths: 64, 128, 256 and so on. Pairs of padding
    are short, because attention takes the square of a length. They have tokens on both sides, so
    that each has something to attend to. Empty sentences follow, which cost nothing.
    """

    src: int  # tokens
    tgt: int
    sentences: int
    parts: int  # the micro-batches of a rank in a usual update

    @classmethod
    def for_updates(
        cls, updates: Sequence[tuple[Lengths, Lengths]], bounds: SplitBounds
    ) -> FixedShape:
        """Return the shape for a run.

        updates: source and target lengths (pairs,) of some updates, without eos.
        bounds: how finely they are split.
        """
        world_size, micro_batch_tokens, longest = bounds
        largest = max(int(side.sum()) + len(side) for update in updates for side in update)
        parts = -(-largest // (world_size * micro_batch_tokens))
        most = np.max(
            [
                (src[part].sum() + len(part), tgt[part].sum() + len(part), len(part))
                for src, tgt in updates
                for part in split_update(src, tgt, world_size=world_size * parts)
            ],
            axis=0,
        )
        # 0.6 % for updates to come, and the pairs of padding need a token on either side. The
        # longest pair fits by itself, with the pairs of padding that it needs then.
        alone = longest + max(int(most[:2].max()), longest) // (_SHORT - 1) + 1
        src, tgt = (-(-max(tokens * 1.006 + 2, alone) // 16) * 16 for tokens in most[:2])
        sentences = 1.1 * most[2] + max(src, tgt) / _SHORT + 1
        return cls(int(src), int(tgt), int(sentences), parts)

    def fits(self, src_lengths: Lengths, tgt_lengths: Lengths) -> bool:
        """Tell whether pairs of these lengths (pairs,), without eos, make a batch of this shape."""
        missing, padding = self._padding(src_lengths, tgt_lengths)
        return padding <= min(missing) and len(src_lengths) + padding <= self.sentences

    def padding(self, src_lengths: Lengths, tgt_lengths: Lengths) -> tuple[Indices, Indices]:
        """Return the lengths of the pairs of padding for pairs that fit; those at the end are 0."""
        missing, padding = self._padding(src_lengths, tgt_lengths)
        empty = np.zeros(self.sentences - len(src_lengths) - padding, dtype=np.int64)
        src, tgt = (np.concatenate((_dealt(tokens, padding), empty)) for tokens in missing)
        return src, tgt

    def _padding(self, src_lengths: Lengths, tgt_lengths: Lengths) -> tuple[list[int], int]:
        """Return the tokens that are missing on each side, and the number of pairs of padding."""
        sides = zip((self.src, self.tgt), (src_lengths, tgt_lengths), strict=True)
        missing = [tokens - int(lengths.sum()) - len(lengths) for tokens, lengths in sides]
        return missing, -(-max(missing) // _SHORT)


_MULTIPLE = 128
"""oneDNN builds each kind of product anew for each number of tokens, which takes longer than 64
tokens more, and keeps only the newest. With multiples of 64, processes of 500 tokens each had too
many numbers, and took 1.6 times as long."""


def padding_to_multiples(lengths: Sequence[Lengths], bounds: Sequence[int]) -> list[Indices]:
    """Return the lengths of pairs of padding after which both sides have multiples of 128 tokens.

    They are no longer than the last group if that is possible. Sides of fewer have none.

    lengths: source and target lengths (pairs,), without eos; bounds: where a new group begins.
    """
    tokens = np.array([side.sum() + len(side) for side in lengths])
    if tokens.min() < _MULTIPLE:
        return [_NONE, _NONE]
    last = bounds[-1] if bounds else 0
    longest = np.array([int(side[last:].max()) + 1 for side in lengths])
    missing = -tokens % _MULTIPLE
    padding = int((-(-missing // longest)).max())
    if missing.min() < padding:  # each pair needs a token on either side
        missing += _MULTIPLE
        padding = min(_MULTIPLE, int((-(-missing // longest)).max()))
    return [_dealt(int(side), padding) for side in missing]


def _dealt(tokens: int, sentences: int) -> Indices:
    """Return the lengths of sentences that share some tokens."""
    return np.diff(np.arange(sentences + 1) * tokens // max(1, sentences))


def collate(
    src: TokenRows,
    tgt: TokenRows,
    shape: FixedShape | None = None,
    links: Indices | None = None,
    *,
    on_gpu: bool = False,
    in_multiples: bool = False,
) -> Batch:
    """Make the batch of some pairs, in their order; they must fit the shape, if there is one.

    src, tgt: the tokens of the pairs.
    shape: of the batch, if it is fixed.
    links: (target tokens,) from a `Linker`.
    on_gpu: whether the batch will go to a GPU, where fewer groups are faster.
    in_multiples: see `padding_to_multiples`.
    """
    lengths = src.lengths, tgt.lengths
    # A batch of fixed shape goes to a GPU, whose attention takes packed sentences.
    bounds = () if shape else group_bounds(*lengths, on_gpu=on_gpu)
    src_padding = tgt_padding = _NONE
    longest = 0
    if shape:
        src_padding, tgt_padding = shape.padding(*lengths)
        longest = max(_SHORT, 1 << max(int(side.max()) for side in lengths).bit_length())
    elif in_multiples:
        src_padding, tgt_padding = padding_to_multiples(lengths, bounds)
    return Batch(
        src=_packed(src, EOS_ID, src_padding, longest, bounds),
        tgt_in=_packed(tgt, BOS_ID, tgt_padding, longest, bounds),
        targets=torch.from_numpy(_with_ends(tgt, EOS_ID)),
        links=None if links is None else _links(lengths, links, on_gpu=on_gpu),
    )


def _links(lengths: tuple[Lengths, Lengths], links: Indices, *, on_gpu: bool) -> Links:
    """Return links of pairs whose eos has none."""
    bounds = group_bounds(*lengths, on_gpu=on_gpu)
    src, tgt = (_groups(side.astype(np.int64) + 1, bounds, 0) for side in lengths)
    with_eos = np.insert(links, np.cumsum(lengths[1], dtype=np.int64), NO_LINK)
    return Links(torch.from_numpy(with_eos), src, tgt)


@dataclass(frozen=True)
class LengthSums:
    """Sums over pairs of the source length S, the target length T, and their products, with eos.

    A model's FLOPs follow from them: `src` and `tgt` count the work per token, the products the
    work of attention.
    """

    src: int = 0
    tgt: int = 0
    src_src: int = 0
    tgt_tgt: int = 0
    src_tgt: int = 0

    @classmethod
    def of_pairs(cls, src_lengths: Lengths, tgt_lengths: Lengths) -> LengthSums:
        """Sum over pairs of these lengths (pairs,), without eos."""
        src, tgt = (lengths.astype(np.int64) + 1 for lengths in (src_lengths, tgt_lengths))
        return cls(int(src.sum()), int(tgt.sum()), int(src @ src), int(tgt @ tgt), int(src @ tgt))

    def __add__(self, other: LengthSums) -> LengthSums:
        """Return the sums over the pairs of both."""
        return LengthSums(*map(operator.add, astuple(self), astuple(other)))


def pack_sources(sources: Sequence[Sequence[int]], *, on_gpu: bool = False) -> Packed:
    """Pack encoded source lines for the model's `encode`, each followed by eos."""
    rows = TokenRows.from_lists(sources, token_bytes=4)
    return _packed(rows, EOS_ID, _NONE, 0, group_bounds(rows.lengths, rows.lengths, on_gpu=on_gpu))


def _packed(
    rows: TokenRows, end: int, padding: Indices, longest: int, bounds: Sequence[int]
) -> Packed:
    """Pack rows with bos before or eos after each, followed by sentences of padding.

    rows: token ids.
    end: bos or eos.
    padding: lengths of the sentences of padding.
    longest: lower bound for the result's `longest`, and that of its groups.
    bounds: where a new group begins.
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
        groups=_groups(lengths, bounds, longest),
    )


def _groups(lengths: Indices, bounds: Sequence[int], longest: int) -> tuple[PaddedGroup, ...]:
    """Return consecutive groups of sentences of these lengths, with eos or bos.

    lengths: (sentences,); bounds: where a new group begins; longest: lower bound for the `longest`
    of a group.
    """
    starts = [0, *np.cumsum(lengths).tolist()]
    return tuple(
        PaddedGroup(slice(a, b), slice(starts[a], starts[b]), max(longest, int(lengths[a:b].max())))
        for a, b in pairwise((0, *bounds, len(lengths)))
    )


def _with_ends(rows: TokenRows, end: int) -> Indices:
    """Return all ids with bos before or eos after each row: (tokens + rows,)."""
    closing = np.cumsum(rows.lengths, dtype=np.int64)  # the end of each row
    places = closing - rows.lengths if end == BOS_ID else closing
    return np.insert(rows.ids.astype(np.int64), places, end)


def group_bounds(src_lengths: Lengths, tgt_lengths: Lengths, *, on_gpu: bool = False) -> list[int]:
    """Return where to cut consecutive pairs into groups, so that attention has the least work.

    Each group is padded to its longest source and target. Few groups pad much, but each one more
    costs something too. The best cuts are found by dynamic programming, from the first pair on.

    src_lengths, tgt_lengths: (pairs,), without eos; best sorted by length.
    on_gpu: whether attention runs on a GPU.
    """
    of_position, of_group = _ON_GPU if on_gpu else _ON_CPU
    lengths = np.stack((src_lengths, tgt_lengths)).astype(np.int64) + 1  # (2, pairs)
    # Neighbours of one length stay together: runs of pairs from edge to edge.
    edges = np.flatnonzero(np.diff(lengths.max(0), prepend=0, append=0))  # (runs + 1,)
    longest = np.maximum.reduceat(lengths, edges[:-1], axis=1)  # (2, runs)
    least = np.zeros(len(edges))  # the work of all pairs before an edge
    before = np.zeros(len(edges), dtype=np.int64)  # where the last group before it begins
    for end in range(1, len(edges)):
        # of groups from each earlier edge to this one
        src, tgt = np.maximum.accumulate(longest[:, end - 1 :: -1], axis=1)[:, ::-1]
        pairs = edges[end] - edges[:end]
        work = pairs * (src * src + tgt * tgt + src * tgt + of_position * (src + tgt)) + of_group
        before[end] = (least[:end] + work).argmin()
        least[end] = (least[:end] + work).min()
    bounds, end = [], int(before[-1])
    while end:
        bounds.append(int(edges[end]))
        end = int(before[end])
    return bounds[::-1]


def longest_first(src_lengths: Lengths, tgt_lengths: Lengths) -> Indices:
    """Return the order of pairs by their longer side, then by both; the longest come first."""
    longer = np.maximum(src_lengths, tgt_lengths)
    return np.lexsort((src_lengths + tgt_lengths, longer))[::-1]


def split_update(src_lengths: Lengths, tgt_lengths: Lengths, *, world_size: int) -> list[Indices]:
    """Deal an update's pairs out to ranks: the longest first, each to where both sides have room.

    So ranks get about the same lengths, and the same work. Returns the indices into the update for
    each rank, longest first. If there are fewer pairs than ranks, some ranks get none.
    """
    order = longest_first(src_lengths, tgt_lengths)
    if world_size == 1:
        return [order]
    # Each pair's share of all source tokens, and of all target tokens.
    src, tgt = (((side + 1) / (side + 1).sum())[order] for side in (src_lengths, tgt_lengths))
    owners = np.zeros(len(order), dtype=np.int64)
    loads = [(0.0, 0.0)] * world_size
    for place, (more_src, more_tgt) in enumerate(zip(src.tolist(), tgt.tolist(), strict=True)):
        fuller = [max(own_src + more_src, own_tgt + more_tgt) for own_src, own_tgt in loads]
        owners[place] = rank = fuller.index(min(fuller))
        loads[rank] = loads[rank][0] + more_src, loads[rank][1] + more_tgt
    return [order[owners == rank] for rank in range(world_size)]


def micro_batches(
    src_lengths: Lengths, tgt_lengths: Lengths, micro_batch_tokens: int
) -> list[Indices]:
    """Split pairs into runs of at most `micro_batch_tokens` on either side.

    A longer pair is a run by itself. The runs are as few as possible and about equal, because a
    small last one would be slow.

    src_lengths, tgt_lengths: (pairs,), without eos; micro_batch_tokens: the bound.
    Returns the indices of the pairs in each run.
    """
    lengths = src_lengths.astype(np.int64) + 1, tgt_lengths.astype(np.int64) + 1
    bounds = cut_by_tokens(*lengths, micro_batch_tokens)
    # Bisect for the smallest budget that needs no more runs: too_small < budget <= enough.
    too_small, enough = max(int(side.max(initial=1)) for side in lengths) - 1, micro_batch_tokens
    while len(bounds) > 2 and enough - too_small > 1:
        budget = (too_small + enough) // 2
        tried = cut_by_tokens(*lengths, budget)
        if len(tried) > len(bounds):
            too_small = budget
        else:
            bounds, enough = tried, budget
    return [np.arange(start, end) for start, end in pairwise(bounds.tolist())]


def parts_by_length(
    src_lengths: Lengths, tgt_lengths: Lengths, micro_batch_tokens: int
) -> list[Indices]:
    """Split pairs into micro-batches by their lengths, the longest first; see `micro_batches`."""
    order = longest_first(src_lengths, tgt_lengths)
    parts = micro_batches(src_lengths[order], tgt_lengths[order], micro_batch_tokens)
    return [order[part] for part in parts]
