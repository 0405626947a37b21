"""Attention among packed sentences for training (Vaswani et al. 2017, section 3.2).

On GPUs since Ampere, in half precision, flash attention (Dao 2023) or `sentence_attention` takes
packed sentences. In other cases they are padded in groups of similar length.

In local attention (section 4) each position sees those at a distance of at most r. If that is less
work, the n packed tokens are cut into blocks of r, regardless of sentences. A query sees keys in
its own block, the one before and, unless causal, the one after: n * 3r or n * 2r in all. A mask
hides keys that are farther away or in another sentence.

Legend: B rows (sentences or blocks), L tokens of the longest (T of queries, S of keys), H heads, K
and V the widths of a head's keys and values, n and m tokens of packed sentences, k the largest
relative distance. For blocks: C = ceil(n / r) blocks, S = 3r or 2r.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor

from nmt.data.batches import Packed
from nmt.models.kernels.padded_layout import HeadLayout, PaddedLayout, Projected, in_heads
from nmt.models.kernels.softmax import softmax, softmax_gradient
from nmt.models.positions import Relative, spread_by_distance, sum_by_distance


@dataclass(frozen=True)
class Sentences:
    """Packed sentences with their layout for attention; made once per forward pass."""

    packed: Packed
    groups: tuple[PaddedLayout, ...]
    """Groups of sentences; none if attention takes packed sentences."""
    heads: HeadLayout | None  # of these groups
    rotation: Tensor | None = None
    """(n, K) rotates the queries and keys of self-attention (see `rotated`); None: no rotation."""

    @classmethod
    def of(
        cls, packed: Packed, num_heads: int, *, as_packed: bool, rotation: Tensor | None = None
    ) -> Sentences:
        """Lay out sentences in groups, unless attention takes them packed."""
        if as_packed:
            return cls(packed, (), None, rotation)
        groups = tuple(PaddedLayout.of_group(packed, group) for group in packed.groups)
        return cls(packed, groups, HeadLayout.of(groups, num_heads), rotation)


def takes_packed(like: Tensor, head_width: int, value_width: int) -> bool:
    """Tell whether attention can take packed sentences without padding.

    like: a tensor of the type and on the device of the keys; head_width: K; value_width: V.
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


@dataclass
class _Kernels:
    """The kernel for sentences, if it is used."""

    attend_sentences: Callable[..., Tensor] | None = None


_kernels = _Kernels()
ANY_DISTANCE = 1 << 30  # for the kernel: more than any sentence has tokens
_SMALL = 1 << 23
"""Numbers in the queries below which Python's work for the kernel takes longer than the kernel
saves, by estimate for an H100: 16,000 tokens of the base model."""
_LONG = 512
"""Tokens of a sentence above which flash attention is used. It is the faster one on an H100 if all
sentences have 512, and the kernel if all have 256."""


def use_sentence_kernel(used: bool) -> None:
    """Compute attention of large batches on GPUs by `sentence_attention` (ImportError) or never."""
    _kernels.attend_sentences = None
    if used:
        from nmt.models.kernels.sentence_attention import attend_sentences

        _kernels.attend_sentences = attend_sentences


def _suit_kernel(query: Tensor, own: Packed, others: Packed) -> bool:
    """Tell whether the kernel for sentences is faster, for queries as they are projected."""
    return (
        query.shape[-1] in (16, 32, 64, 128)
        and len(query) * query.shape[2] * query.shape[3] >= _SMALL
        and max(own.longest, others.longest) <= _LONG
    )


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

    others: the sentences of the keys and values, the same number.
    window: the largest distance of attention in a sentence; 0: any.
    relative: vectors added to keys and values at each distance. Not supported for packed sentences.
    Returns (n, H, V).
    """
    if own.heads is None or others.heads is None:
        assert relative is None
        attend_sentences = _kernels.attend_sentences
        if attend_sentences and _suit_kernel(projected[0], own.packed, others.packed):
            before = window or ANY_DISTANCE
            return attend_sentences(
                projected,
                *(own.packed.starts, others.packed.starts),
                before=before,
                after=0 if causal else before,
            )
        query, key, value = (part for x in projected for part in _parts(x))  # (n or m, H, K)
        before = window or -1  # which means any distance
        # What `torch.nn.attention.varlen_attn` calls, without 0.2 ms of Python each time.
        attended: Tensor = torch.ops.aten._flash_attention_forward(
            *(query, key, value, own.packed.starts, others.packed.starts),
            *(own.packed.longest, others.packed.longest),
            dropout_p=0.0,
            is_causal=False,  # but see the window
            return_debug_mask=False,
            window_size_left=before,
            window_size_right=0 if causal else before,
        )[0]
        return attended
    if window and saves_work(own.packed, window, causal=causal):
        layout = AttentionLayout.of_blocks(
            own.packed, projected[0].shape[2], causal=causal, window=window
        )
    else:
        layout = AttentionLayout.of_sentences(own, others, causal=causal, window=window)
    padded: Tensor = _PaddedAttention.apply(layout, *(relative or (None, None)), *projected)  # type: ignore[no-untyped-call]
    return padded


def _parts(x: Tensor) -> Sequence[Tensor]:
    """Return the parts of x (n, parts, H, K), each (n, H, K).

    The gradient of several is copied into one tensor. That of a single one needs no copy.
    """
    return x.unbind(1) if x.shape[1] > 1 else (x.squeeze(1),)


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

    Returns (B, H, T, S) in fp32 at least, 0 at padding on either side.
    """
    num_heads = projected[0].shape[2]
    sides = [
        Sentences.of(sentences.packed.in_one_group(), num_heads, as_packed=False)
        for sentences in (own, others)
    ]
    layout = AttentionLayout.of_sentences(*sides, causal=causal, window=window)
    wide = torch.promote_types(projected[0].dtype, torch.float32)
    parts = in_heads([x.to(wide) for x in projected], layout.own, layout.others)
    query, key = islice(parts, 2)
    (query,), (key,) = layout.own.groups(query), layout.others.groups(key)  # (B * H, T or S, K)
    for_keys = None if relative is None else relative[0].to(wide)
    weights = padded_weights(query, key, layout, 0, for_keys)
    return weights.view(-1, num_heads, *weights.shape[1:])


@dataclass(frozen=True)
class AttentionLayout:
    """Queries and keys by groups of sentences, or in blocks, and which keys are hidden."""

    own: HeadLayout  # of queries: (B * H, T) in each group
    others: HeadLayout  # of keys and values: (B * H, S), or the own block
    real: list[Tensor]  # (B, T) bool of each group, False = padding of queries
    hidden: list[Tensor]
    """Of each group: bool, broadcastable to (B, H, T, S), True = must not attend."""
    first: int = 0
    """Position of a row's first query among its keys: r for blocks, whose keys begin one block
    earlier; else 0."""

    @classmethod
    def of_sentences(
        cls, own: Sentences, others: Sentences, *, causal: bool, window: int
    ) -> AttentionLayout:
        """Lay out row by row.

        own, others: sentences of queries and keys, in the same groups.
        window: the largest distance of attention; 0: any.
        """
        assert own.heads is not None and others.heads is not None
        hidden = [
            _hidden(queries.mask, keys.mask, causal=causal, window=window)
            for queries, keys in zip(own.groups, others.groups, strict=True)
        ]
        return cls(own.heads, others.heads, [group.mask for group in own.groups], hidden)

    @classmethod
    def of_blocks(
        cls, packed: Packed, num_heads: int, *, causal: bool, window: int
    ) -> AttentionLayout:
        """Lay out block by block, in one group; see `of_sentences`."""
        blocks = PaddedLayout.of_blocks(packed, window)
        heads = HeadLayout.of([blocks], num_heads)
        hidden = hidden_in_blocks(packed, window, causal=causal)[:, None]  # (B, 1, T, S)
        return cls(heads, heads, [blocks.mask], [hidden], first=window)

    def seen(self, x: Tensor, group: int) -> Tensor:
        """Map the keys or values of a group's rows (B * H, L, K) to those seen (B * H, S, K).

        Each of C blocks gets the block before it and, unless causal, the one after it: 0 before the
        first block and after the last.
        """
        if not self.first:
            return x
        hidden = self.hidden[group]  # (C, 1, r, S)
        blocks = hidden.shape[-1] // self.first  # that a query sees, 2 or 3
        own = x.view(len(hidden), -1, *x.shape[1:])  # (C, H, r, K)
        wide = own.new_zeros(*own.shape[:2], blocks, *own.shape[2:])  # (C, H, blocks, r, K)
        wide[1:, :, 0] = own[:-1]
        wide[:, :, 1] = own
        if blocks == 3:
            wide[:-1, :, 2] = own[1:]
        return wide.view(len(x), -1, x.shape[-1])  # (C * H, S, K)

    def summed(self, seen: Tensor, group: int) -> Tensor:
        """Sum gradients of the keys or values that queries see: the adjoint of `seen`."""
        if not self.first:
            return seen
        rows, keys, width = seen.shape  # C * H, S, K
        blocks = keys // self.first  # that a query sees, 2 or 3
        placed = seen.view(len(self.hidden[group]), -1, blocks, self.first, width)
        own = placed[:, :, 1].clone()  # (C, H, r, K), a copy that sums go into
        own[:-1] += placed[1:, :, 0]
        if blocks == 3:
            own[1:] += placed[:-1, :, 2]
        return own.view(rows, -1, width)  # (C * H, r, K)


def _hidden(queries: Tensor, keys: Tensor, *, causal: bool, window: int) -> Tensor:
    """Return which keys are hidden from the queries, broadcastable to (B, H, T, S).

    queries: (B, T) bool, False = padding.
    keys: (B, S) bool, False = padding.
    window: the largest distance of attention; 0: any.
    """
    padding = ~keys[:, None, None]  # (B, 1, 1, S)
    if not causal and not window:
        return padding
    pairs = padding.new_ones(queries.shape[1], keys.shape[1])  # (T, S)
    hidden = pairs.triu(1 if causal else window + 1)
    if window:
        hidden |= pairs.tril(-window - 1)
    # Padding is at the end, so a causal mask hides it from all real positions.
    return hidden if causal else hidden | padding


def saves_work(packed: Packed, distance: int, *, causal: bool) -> bool:
    """Tell whether blocks have fewer pairs of query and key than sentences padded in groups."""
    in_padded: int = sum(
        (group.sentences.stop - group.sentences.start) * group.longest**2 for group in packed.groups
    )
    return in_padded > -(-len(packed.tokens) // distance) * distance**2 * (2 if causal else 3)


def hidden_in_blocks(packed: Packed, distance: int, *, causal: bool) -> Tensor:
    """Return which of the S keys are hidden from each query of a block: (C, r, S) bool."""
    count, device = len(packed.tokens), packed.tokens.device
    places = torch.arange(-(-count // distance) * distance, device=device)  # (C * r,)
    sentences = packed.sentences[places.clamp(max=count - 1)]  # (C * r,)
    # The keys of a query are neither outside its sentence nor farther than r.
    first = torch.maximum(packed.starts[sentences], places - distance)  # (C * r,)
    last = places if causal else places + distance
    last = torch.minimum(packed.starts[sentences + 1] - 1, last)
    width = (2 if causal else 3) * distance
    # The keys of block c begin one block earlier, at (c - 1) r.
    keys = places[::distance, None, None] - distance + torch.arange(width, device=device)
    first, last = (bound.view(-1, distance, 1) for bound in (first, last))
    return (keys < first) | (keys > last)  # (C, r, S)


def padded_weights(
    query: Tensor, key: Tensor, layout: AttentionLayout, group: int, for_keys: Tensor | None
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) of a group, (B * H, T, S), and 0 at padding.

    query: (B * H, T, K), overwritten; key: (B * H, S, K), the keys that queries see; layout: of
    these; group: which of its groups; for_keys: (2k + 1, K), vectors added to keys at each
    distance.
    """
    # Scaling the queries takes fewer operations than scaling the scores.
    scores = torch.bmm(query.mul_(query.shape[-1] ** -0.5), key.transpose(1, 2))  # (B * H, T, S)
    if for_keys is not None:
        scores += spread_by_distance(query @ for_keys.t(), scores.shape[2], layout.first)
    real = layout.real[group]  # (B, T)
    by_row = scores.view(len(real), -1, *scores.shape[1:])  # (B, H, T, S)
    by_row.masked_fill_(layout.hidden[group], -math.inf)
    weights = softmax(scores)  # (B * H, T, S)
    # Padding must not send a gradient to the keys.
    weights.view(by_row.shape).masked_fill_(~real[:, None, :, None], 0.0)
    return weights


class _PaddedAttention(torch.autograd.Function):
    """Equation 1 product by product, in place if possible. Saves only the inputs and the weights.

    At the lengths of sentences, torch's fused attention takes several times as long for its
    backward pass on CPUs, most of all in bf16. There the small products take longer in bf16 than in
    fp32 as well, so they are in fp32.
    """

    @staticmethod
    def forward(
        ctx: Any,
        layout: AttentionLayout,
        for_keys: Tensor | None,
        for_values: Tensor | None,
        *projected: Tensor,
    ) -> Tensor:
        own, others = layout.own, layout.others
        dtype = projected[0].dtype
        wide = dtype if projected[0].is_cuda else torch.promote_types(dtype, torch.float32)
        for_keys, for_values = (None if x is None else x.to(wide) for x in (for_keys, for_values))
        laid_out = [x.to(wide) for x in in_heads(projected, own, others)]  # (P, K), (P, K), (P, V)
        attended = laid_out[0].new_empty(len(own.tokens), laid_out[2].shape[1])  # (P, V)
        each: list[tuple[Tensor, Tensor | None]] = []  # weights of a group, and by distance
        parts = [side.groups(x) for side, x in zip((own, others, others), laid_out, strict=True)]
        for group, (query, key, value, out) in enumerate(
            zip(*parts, own.groups(attended), strict=True)
        ):
            weights = padded_weights(query, layout.seen(key, group), layout, group, for_keys)
            # Into its part of the result of all groups, so that nothing is concatenated.
            torch.bmm(weights, layout.seen(value, group), out=out)  # (B * H, T, V)
            by_distance = None
            if for_values is not None:
                by_distance = sum_by_distance(weights, len(for_values) // 2, layout.first)
                out += by_distance @ for_values
            each.append((weights, by_distance))
        ctx.save_for_backward(for_keys, for_values, *laid_out, *chain(*each))  # query is scaled
        ctx.layout, ctx.parts = layout, [x.shape[1] for x in projected]
        return own.packed(attended[None])[:, 0].to(dtype)  # (n, H, V)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        for_keys, for_values, *saved = ctx.saved_tensors
        layout, sides = ctx.layout, (ctx.layout.own, ctx.layout.others, ctx.layout.others)
        laid_out, each = saved[:3], saved[3:]
        # What a product of the model made together has its gradients in one tensor.
        for_laid_out: list[Tensor] = []  # each (parts, P, K)
        done = 0
        for count in ctx.parts:
            for_laid_out.append(laid_out[done].new_empty(count, *laid_out[done].shape))
            done += count
        for_parts = [part for joined in for_laid_out for part in joined]
        inputs = [side.groups(x) for side, x in zip(sides, laid_out, strict=True)]
        outputs = [side.groups(x) for side, x in zip(sides, for_parts, strict=True)]
        # At padding these repeat the gradient of a row's last token, where the weights are 0.
        for_attended = layout.own.groups(
            layout.own.lay_out(gradients[0][:, None], 0).to(laid_out[0].dtype)
        )
        for_relative = [None if x is None else torch.zeros_like(x) for x in (for_keys, for_values)]
        for group, gradient in enumerate(for_attended):  # (B * H, T, V)
            query, key, value = (x[group] for x in inputs)
            for_query, for_key, for_value = (x[group] for x in outputs)
            weights, by_distance = each[2 * group : 2 * group + 2]
            seen = layout.seen(value, group).transpose(1, 2)
            for_scores = torch.bmm(gradient, seen)  # (B * H, T, S)
            if for_values is not None:
                by_value = gradient @ for_values.t()  # (B * H, T, 2k + 1)
                for_scores += spread_by_distance(by_value, for_scores.shape[2], layout.first)
                # (2k + 1, V): summed over rows, heads and queries
                for_relative[1] += by_distance.flatten(0, 1).t() @ gradient.flatten(0, 1)
            # Hidden keys and padded queries have the weight 0, and so no gradient.
            for_scores = softmax_gradient(for_scores, weights)
            torch.bmm(for_scores, layout.seen(key, group), out=for_query)  # (B * H, T, K)
            if for_keys is not None:
                by_score = sum_by_distance(for_scores, len(for_keys) // 2, layout.first)
                for_query += by_score @ for_keys
                for_relative[0] += by_score.flatten(0, 1).t() @ query.flatten(0, 1)
            for_query.mul_(query.shape[-1] ** -0.5)  # for_key needs none: the saved query is scaled
            if layout.first:
                for_key.copy_(layout.summed(torch.bmm(for_scores.transpose(1, 2), query), group))
                for_value.copy_(layout.summed(torch.bmm(weights.transpose(1, 2), gradient), group))
            else:
                torch.bmm(for_scores.transpose(1, 2), query, out=for_key)
                torch.bmm(weights.transpose(1, 2), gradient, out=for_value)
        dtype = gradients[0].dtype
        packed = [
            (layout.others if number else layout.own).packed(x.to(dtype))
            for number, x in enumerate(for_laid_out)
        ]
        relative = [None if x is None else x.to(dtype) for x in for_relative]
        return None, *relative, *packed
