"""Attention among packed sentences for training (Vaswani et al. 2017, section 3.2).

On GPUs since Ampere, in half precision, flash attention (Dao 2023) takes packed sentences. In other
cases they are padded in groups of similar length. Little of that is padding, and heads have to be
copied anyway.

In local attention (section 4) each position sees those at a distance of at most r. If that is less
work than padded sentences, the n packed tokens are cut into blocks of r, regardless of sentences. A
query sees keys in its own block, the one before and, unless causal, the one after. So work and
memory are n * 3r or n * 2r instead of the sum of squared lengths. A mask hides keys that are
farther away or in another sentence.

Legend: B rows (sentences or blocks), L tokens of the longest (T of queries, S of keys), H heads, K
and V the widths of a head's keys and values, n and m tokens of packed sentences, k the largest
relative distance. For blocks: C = ceil(n / r) blocks, S = 3r or 2r.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from nmt.data.batches import Packed
from nmt.models.kernels.padded_layout import PaddedLayout, Projected, in_heads
from nmt.models.positions import Relative, spread_by_distance, sum_by_distance


@dataclass(frozen=True)
class Sentences:
    """Packed sentences with their layout for attention; made once per forward pass."""

    packed: Packed
    layouts: tuple[PaddedLayout, ...]
    """One for each group; none if attention takes packed sentences."""
    rotation: Tensor | None = None
    """(n, K) rotates the queries and keys of self-attention (see `rotated`); None: no rotation."""

    @classmethod
    def of(cls, packed: Packed, *, as_packed: bool, rotation: Tensor | None = None) -> Sentences:
        """Lay out sentences, unless attention takes them packed."""
        groups = () if as_packed else packed.groups
        layouts = tuple(PaddedLayout.of_group(packed, group) for group in groups)
        return cls(packed, layouts, rotation)


def takes_packed(like: Tensor, head_width: int, value_width: int) -> bool:
    """Tell whether attention can take packed sentences without padding.

    Args:
        like: a tensor of the type and on the device of the keys.
        head_width: K.
        value_width: V.
    """
    return (
        like.is_cuda
        and like.dtype in (torch.bfloat16, torch.float16)
        and head_width == value_width
        and head_width % 8 == 0
        and head_width <= 256
        and _has_flash_attention(like.get_device())
    )


_is_known_to_have_flash_attention: dict[int, bool] = {}
"""By GPU. torch.compile cannot query a GPU, and finds the answer here."""


def _has_flash_attention(gpu: int) -> bool:
    if gpu not in _is_known_to_have_flash_attention:
        since_ampere = torch.cuda.get_device_capability(gpu) >= (8, 0)
        _is_known_to_have_flash_attention[gpu] = since_ampere
    return _is_known_to_have_flash_attention[gpu]


def attend_packed(
    projected: Projected,
    own: Sentences,
    others: Sentences,
    *,
    causal: bool = False,
    window: int = 0,
    relative: Relative | None = None,
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1), sentence by sentence.

    Args:
        projected: queries, keys and values.
        own: the sentences of the queries.
        others: the sentences of the keys and values, the same number.
        causal: whether a token attends only to itself and earlier ones.
        window: the largest distance of attention in a sentence; 0: any.
        relative: vectors added to keys and values at each distance. Not supported for packed
            sentences.

    Returns:
        (n, H, V).
    """
    if not own.layouts:
        assert relative is None
        query, key, value = (part for x in projected for part in x.unbind(1))  # (n or m, H, K)
        # Imported here, because it takes longer than the rest of torch, and CPUs do not need it.
        from torch.nn.attention.varlen import varlen_attn

        before = window or -1
        attended = varlen_attn(
            query,
            key,
            value,
            own.packed.starts,
            others.packed.starts,
            own.packed.longest,
            others.packed.longest,
            window_size=(before, 0 if causal else before),
        )
        assert isinstance(attended, Tensor)
        return attended
    if window and saves_work(own.packed, window, causal=causal):
        layouts = [AttentionLayout.of_blocks(own.packed, causal=causal, window=window)]
    else:
        layouts = [
            AttentionLayout.of_sentences(*both, causal=causal, window=window)
            for both in zip(own.layouts, others.layouts, strict=True)
        ]
    return attend_padded(projected, layouts, relative)


def attention_weights(
    projected: Projected,
    own: Sentences,
    others: Sentences,
    *,
    causal: bool = False,
    window: int = 0,
    relative: Relative | None = None,
) -> Tensor:
    """Return the attention weights of `attend_packed`, without a gradient.

    Args:
        projected, own, others, causal, window, relative: those of `attend_packed`.

    Returns:
        (B, H, T, S) in fp32 at least, 0 at padding on either side.
    """
    layouts = PaddedLayout.of(own.packed), PaddedLayout.of(others.packed)
    wide = torch.promote_types(projected[0].dtype, torch.float32)
    parts = in_heads([x.to(wide) for x in projected], *layouts)
    query, key = islice(parts, 2)  # (B * H, T, K), (B * H, S, K)
    layout = AttentionLayout.of_sentences(*layouts, causal=causal, window=window)
    for_keys = None if relative is None else relative[0].to(wide)
    weights = padded_weights(query, key, layout, for_keys)
    return weights.view(len(layout.own.tokens), -1, *weights.shape[1:])


@dataclass(frozen=True)
class AttentionLayout:
    """Pairs of queries and keys, and which keys are hidden."""

    own: PaddedLayout  # of queries: (B, T)
    others: PaddedLayout  # of keys and values: (B, S), or the own block
    hidden: Tensor  # bool, broadcastable to (B, H, T, S), True = must not attend
    first: int = 0
    """Position of a row's first query among its keys: r for blocks, whose keys begin one block
    earlier; else 0."""

    @classmethod
    def of_sentences(
        cls, own: PaddedLayout, others: PaddedLayout, *, causal: bool, window: int
    ) -> AttentionLayout:
        """Lay out row by row.

        Args:
            own, others: layouts of queries and keys.
            causal: whether a token attends only to itself and earlier ones.
            window: the largest distance of attention; 0: any.
        """
        padding = ~others.mask[:, None, None]  # (B, 1, 1, S)
        if not causal and not window:
            return cls(own, others, padding)
        pairs = padding.new_ones(own.tokens.shape[1], others.tokens.shape[1])  # (T, S)
        hidden = pairs.triu(1 if causal else window + 1)
        if window:
            hidden |= pairs.tril(-window - 1)
        # Padding is at the end, so a causal mask hides it from all real positions.
        return cls(own, others, hidden if causal else hidden | padding)

    @classmethod
    def of_blocks(cls, packed: Packed, *, causal: bool, window: int) -> AttentionLayout:
        """Lay out block by block; see `of_sentences`."""
        blocks = PaddedLayout.of_blocks(packed, window)
        hidden = hidden_in_blocks(packed, window, causal=causal)[:, None]  # (B, 1, T, S)
        return cls(blocks, blocks, hidden, first=window)

    def seen(self, x: Tensor) -> Tensor:
        """Map the keys or values of rows (B * H, L, K) to those seen (B * H, S, K)."""
        if not self.first:
            return x
        return with_neighbours(x, len(self.hidden), self.hidden.shape[-1] // self.first)

    def summed(self, seen: Tensor) -> Tensor:
        """Sum gradients of the keys or values that queries see: the adjoint of `seen`."""
        if not self.first:
            return seen
        return without_neighbours(seen, len(self.hidden), self.hidden.shape[-1] // self.first)


def saves_work(packed: Packed, distance: int, *, causal: bool) -> bool:
    """Tell whether blocks have fewer pairs of query and key than sentences padded in groups.

    Args:
        packed: the sentences.
        distance: r.
        causal: whether a position sees only itself and earlier ones.
    """
    in_padded = sum(
        (group.sentences.stop - group.sentences.start) * group.longest**2 for group in packed.groups
    )
    return in_padded > -(-len(packed.tokens) // distance) * distance**2 * (2 if causal else 3)


def hidden_in_blocks(packed: Packed, distance: int, *, causal: bool) -> Tensor:
    """Return which of the S keys are hidden from each query of a block: (C, r, S) bool.

    Args:
        packed: the sentences.
        distance: r.
        causal: whether a position sees only itself and earlier ones.
    """
    count, device = len(packed.tokens), packed.tokens.device
    places = torch.arange(-(-count // distance) * distance, device=device)  # (C * r,)
    sentences = packed.sentences[places.clamp(max=count - 1)]  # (C * r,)
    first = torch.maximum(packed.starts[sentences], places - distance)  # first key of each query
    last = places if causal else places + distance
    last = torch.minimum(packed.starts[sentences + 1] - 1, last)
    width = (2 if causal else 3) * distance
    # The keys of block c begin one block earlier, at (c - 1) r.
    keys = places[::distance, None, None] - distance + torch.arange(width, device=device)
    first, last = (bound.view(-1, distance, 1) for bound in (first, last))
    return (keys < first) | (keys > last)  # (C, r, S)


def with_neighbours(x: Tensor, count: int, seen: int) -> Tensor:
    """Return each block with the one before it and, if `seen` is 3, the one after it.

    Args:
        x: (C * H, r, K), blocks from `PaddedLayout.heads`.
        count: C.
        seen: number of blocks that a query sees, 2 or 3.

    Returns:
        (C * H, S, K), 0 before the first block and after the last.
    """
    own = x.view(count, -1, *x.shape[1:])  # (C, H, r, K)
    wide = own.new_zeros(*own.shape[:2], seen, *own.shape[2:])  # (C, H, seen, r, K)
    wide[1:, :, 0] = own[:-1]
    wide[:, :, 1] = own
    if seen == 3:
        wide[:-1, :, 2] = own[1:]
    return wide.view(len(x), -1, x.shape[-1])


def without_neighbours(wide: Tensor, count: int, seen: int) -> Tensor:
    """Sum the copies of each block: the adjoint of `with_neighbours`.

    Args:
        wide: (C * H, S, K).
        count: C.
        seen: number of blocks that a query sees, 2 or 3.

    Returns:
        (C * H, r, K).
    """
    rows, keys, width = wide.shape
    placed = wide.view(count, -1, seen, keys // seen, width)  # (C, H, seen, r, K)
    own = placed[:, :, 1].clone()  # (C, H, r, K)
    own[:-1] += placed[1:, :, 0]
    if seen == 3:
        own[1:] += placed[:-1, :, 2]
    return own.view(rows, -1, width)


def attend_padded(
    projected: Projected, layouts: Sequence[AttentionLayout], relative: Relative | None
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1): (n, H, V).

    Args:
        projected: queries, keys and values.
        layouts: of the groups of sentences.
        relative: vectors added to keys and values at each distance.
    """
    padded: Tensor = _PaddedAttention.apply(layouts, *(relative or (None, None)), *projected)  # type: ignore[no-untyped-call]
    return padded


def padded_weights(
    query: Tensor, key: Tensor, layout: AttentionLayout, for_keys: Tensor | None
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)), (B * H, T, S), and 0 at padding.

    Args:
        query: (B * H, T, K), overwritten.
        key: (B * H, S, K), the keys that queries see.
        layout: of these.
        for_keys: (2k + 1, K), vectors added to keys at each distance.
    """
    scores = torch.bmm(query.mul_(query.shape[-1] ** -0.5), key.transpose(1, 2))  # (B * H, T, S)
    if for_keys is not None:
        scores += spread_by_distance(query @ for_keys.t(), scores.shape[2], layout.first)
    real = layout.own.mask  # (B, T)
    by_row = scores.view(len(real), -1, *scores.shape[1:])  # (B, H, T, S)
    by_row.masked_fill_(layout.hidden, -math.inf)
    weights = scores.softmax(dim=-1)  # (B * H, T, S)
    # Padding must not send a gradient to the keys.
    weights.view(by_row.shape).masked_fill_(~real[:, None, :, None], 0.0)
    return weights


class _PaddedAttention(torch.autograd.Function):
    """Equation 1 product by product, in place if possible. Saves only the inputs and the weights.

    At the lengths of sentences, torch's fused attention takes several times as long for its
    backward pass on CPUs, most of all in bf16.
    """

    @staticmethod
    def forward(
        ctx: Any,
        layouts: Sequence[AttentionLayout],
        for_keys: Tensor | None,
        for_values: Tensor | None,
        *projected: Tensor,
    ) -> Tensor:
        attended: list[Tensor] = []
        saved: list[Tensor | None] = []
        for layout in layouts:
            query, key, value = in_heads(projected, layout.own, layout.others)
            weights = padded_weights(query, layout.seen(key), layout, for_keys)  # scales query
            summed = torch.bmm(weights, layout.seen(value))  # (B * H, T, V)
            by_distance = None
            if for_values is not None:
                by_distance = sum_by_distance(weights, len(for_values) // 2, layout.first)
                summed += by_distance @ for_values
            attended.append(layout.own.packed(summed[None])[:, 0])
            saved += [query, key, value, weights, by_distance]
        ctx.save_for_backward(for_keys, for_values, *saved)
        ctx.layouts, ctx.parts = layouts, [x.shape[1] for x in projected]
        return joined(attended)  # (n, H, V)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        for_keys, for_values, *saved = ctx.saved_tensors
        each = iter(saved)
        for_relative: list[Tensor | None] = [None, None]
        for_projected: list[list[Tensor]] = [[] for _ in ctx.parts]
        for layout in ctx.layouts:
            query, key, value, weights, by_distance = islice(each, 5)
            gradient = layout.own.heads(gradients[0][:, None], 0)  # (B * H, T, V)
            for_scores = torch.bmm(gradient, layout.seen(value).transpose(1, 2))  # (B * H, T, S)
            if for_values is not None:
                by_value = gradient @ for_values.t()  # (B * H, T, 2k + 1)
                for_scores += spread_by_distance(by_value, for_scores.shape[2], layout.first)
            for_scores = torch.ops.aten._softmax_backward_data(
                for_scores, weights, -1, weights.dtype
            )
            for_query = torch.bmm(for_scores, layout.seen(key))  # (B * H, T, K)
            if for_keys is not None:
                by_score = sum_by_distance(for_scores, len(for_keys) // 2, layout.first)
                for_query += by_score @ for_keys
                pairs = ((by_score, query), (by_distance, gradient))
                for number, (a, b) in enumerate(pairs):
                    more = a.flatten(0, 1).t() @ b.flatten(0, 1)
                    so_far = for_relative[number]
                    for_relative[number] = more if so_far is None else so_far + more
            for_query.mul_(query.shape[-1] ** -0.5)
            for_key = layout.summed(torch.bmm(for_scores.transpose(1, 2), query))
            for_value = layout.summed(torch.bmm(weights.transpose(1, 2), gradient))
            parts = iter((for_query, for_key, for_value))
            for number, count in enumerate(ctx.parts):
                first, *more = islice(parts, count)
                laid_out = torch.stack((first, *more)) if more else first[None]
                side = layout.others if number else layout.own
                for_projected[number].append(side.packed(laid_out))
        return None, *for_relative, *map(joined, for_projected)


def joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
