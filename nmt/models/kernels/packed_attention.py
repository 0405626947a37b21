"""Attention among packed sentences for training (Vaswani et al. 2017, section 3.2).

On GPUs since Ampere, in half precision, flash attention (Dao 2023) or `sentence_attention` takes
packed sentences. In other cases they are padded in groups of similar length.

Why groups: padded attention pays for the square of the longest sentence. Sentences of 10, 3 and 3
tokens in one padded tensor have 3 * 10 * 10 = 300 scores a head. In two groups, of 10 and of 3 3,
they have 100 + 2 * 3 * 3 = 118. But each group has products of its own to launch, so sentences of
about the same length share one. `nmt.data.batches.group_bounds` weighs both.

Legend: B sentences, L tokens of the longest (T of queries, S of keys), H heads, K and V the widths
of a head's keys and values, n and m tokens of packed sentences, k the largest relative distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn

from nmt.data.batches import Packed
from nmt.models.kernels.linear import batched_type
from nmt.models.kernels.padded_layout import HeadLayout, PaddedLayout, Projected, in_heads
from nmt.models.kernels.relative_positions import Relative, spread_by_distance, sum_by_distance
from nmt.models.kernels.softmax import softmax, softmax_gradient

Recorded = dict[nn.Module, Tensor | None]
"""The weights (B, H, queries, keys) of some attentions in one pass; None before it."""


@dataclass(frozen=True)
class Sentences:
    """Packed sentences with their layout for attention; made once per forward pass."""

    packed: Packed
    groups: tuple[PaddedLayout, ...]
    """Groups of sentences; none if attention takes packed sentences."""
    heads: HeadLayout | None  # of these groups
    rotation: Tensor | None = None
    """(n, K) rotates the queries and keys of self-attention (see `rotated`); None: no rotation."""
    recorded: Recorded | None = None
    """The attentions of which this pass records the weights; None: of none."""

    @classmethod
    def of(
        cls,
        packed: Packed,
        num_heads: int,
        *,
        as_packed: bool,
        rotation: Tensor | None = None,
        recorded: Recorded | None = None,
    ) -> Sentences:
        """Lay out sentences in groups, unless attention takes them packed."""
        if as_packed:
            return cls(packed, (), None, rotation, recorded)
        groups = tuple(PaddedLayout.of_group(packed, group) for group in packed.groups)
        return cls(packed, groups, HeadLayout.of(groups, num_heads), rotation, recorded)

    def record(
        self,
        attention: nn.Module,
        projected: Projected,
        keys: Sentences,
        *,
        causal: bool = False,
        relative: Relative | None = None,
    ) -> None:
        """Record the weights of an attention from these sentences to keys, if they are wanted.

        What is wanted belongs to the pass and not to the model, which several threads may use.
        """
        if self.recorded is not None and attention in self.recorded:
            self.recorded[attention] = attention_weights(
                projected, self, keys, causal=causal, relative=relative
            )


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
        _is_known_to_have_flash_attention[gpu] = torch.cuda.get_device_capability(gpu) >= (8, 0)
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


def _suit_kernel(query: Tensor, queries: Packed, keys: Packed) -> bool:
    """Tell whether the kernel for sentences is faster, for queries as they are projected."""
    return (
        query.shape[-1] in (16, 32, 64, 128)
        and len(query) * query.shape[2] * query.shape[3] >= _SMALL
        and max(queries.longest, keys.longest) <= _LONG
    )


def attend_packed(
    projected: Projected,
    queries: Sentences,
    keys: Sentences,
    *,
    causal: bool = False,
    relative: Relative | None = None,
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1), sentence by sentence.

    keys: the sentences of the keys and values, the same number.
    relative: vectors added to keys and values at each distance. Not supported for packed sentences.
    Returns (n, H, V).
    """
    if queries.heads is None or keys.heads is None:
        assert relative is None
        attend_sentences = _kernels.attend_sentences
        if attend_sentences and _suit_kernel(projected[0], queries.packed, keys.packed):
            after = 0 if causal else ANY_DISTANCE
            starts = queries.packed.starts, keys.packed.starts
            return attend_sentences(projected, *starts, after=after)
        query, key, value = (part for x in projected for part in _parts(x))  # (n or m, H, K)
        # What `torch.nn.attention.varlen_attn` calls, without 0.2 ms of Python each time.
        attended: Tensor = torch.ops.aten._flash_attention_forward(
            query,
            key,
            value,
            queries.packed.starts,
            keys.packed.starts,
            queries.packed.longest,
            keys.packed.longest,
            dropout_p=0.0,
            is_causal=False,  # but see the window
            return_debug_mask=False,
            window_size_left=-1,  # any distance
            window_size_right=0 if causal else -1,
        )[0]
        return attended
    layout = AttentionLayout.of(queries, keys, causal=causal)
    padded: Tensor = _PaddedAttention.apply(layout, *(relative or (None, None)), *projected)  # type: ignore[no-untyped-call]
    return padded


def _parts(x: Tensor) -> Sequence[Tensor]:
    """Return the parts of x (n, parts, H, K), each (n, H, K).

    The gradient of several is copied into one tensor. That of a single one needs no copy.
    """
    return x.unbind(1) if x.shape[1] > 1 else (x.squeeze(1),)


@torch.no_grad()
def attention_weights(
    projected: Projected,
    queries: Sentences,
    keys: Sentences,
    *,
    causal: bool = False,
    relative: Relative | None = None,
) -> Tensor:
    """Return the attention weights of `attend_packed`, without a gradient.

    Returns (B, H, T, S) in fp32 at least, 0 at padding on either side.
    """
    num_heads = projected[0].shape[2]
    sides = [
        Sentences.of(sentences.packed.in_one_group(), num_heads, as_packed=False)
        for sentences in (queries, keys)
    ]
    layout = AttentionLayout.of(*sides, causal=causal)
    wide = torch.promote_types(projected[0].dtype, torch.float32)
    query, key = islice(in_heads([x.to(wide) for x in projected], layout.queries, layout.keys), 2)
    (query,), (key,) = layout.queries.groups(query), layout.keys.groups(key)  # (B * H, T or S, K)
    for_keys = None if relative is None else relative[0].to(wide)
    weights = padded_weights(query, key, layout, 0, for_keys)
    return weights.view(-1, num_heads, *weights.shape[1:])


@dataclass(frozen=True)
class AttentionLayout:
    """Queries and keys by groups of sentences, and which keys are hidden."""

    queries: HeadLayout  # of queries: (B * H, T) in each group
    keys: HeadLayout  # of keys and values: (B * H, S)
    real: list[Tensor]  # (B, T) bool of each group, False = padding of queries
    hidden: list[Tensor]
    """Of each group: bool, broadcastable to (B, H, T, S), True = must not attend."""

    @classmethod
    def of(cls, queries: Sentences, keys: Sentences, *, causal: bool) -> AttentionLayout:
        """Lay out sentences of queries and keys, which are in the same groups."""
        assert queries.heads is not None and keys.heads is not None
        hidden = []
        for of_queries, of_keys in zip(queries.groups, keys.groups, strict=True):
            if causal:  # padding is at the end, so this hides it from all real positions
                lengths = of_queries.mask.shape[1], of_keys.mask.shape[1]
                pairs = of_keys.mask.new_ones(lengths)  # (T, S)
                hidden.append(pairs.triu(1))
            else:
                hidden.append(~of_keys.mask[:, None, None])  # (B, 1, 1, S)
        return cls(queries.heads, keys.heads, [group.mask for group in queries.groups], hidden)


def padded_weights(
    query: Tensor, key: Tensor, layout: AttentionLayout, group: int, for_keys: Tensor | None
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) of a group, (B * H, T, S), and 0 at padding.

    query: (B * H, T, K), overwritten; key: (B * H, S, K); layout: of these; group: which of its
    groups; for_keys: (2k + 1, K), vectors added to keys at each distance.
    """
    # Why the query is scaled, and not the scores:
    # - All products with it are scaled at once. Below, these are the ones with the keys and with
    #   `for_keys`. In the backward pass, the gradients of both need no factor either.
    # - In fp16, scores that are scaled only later may exceed 65,504, the largest number: 64
    #   products of 32 * 32 already do.
    # It is done in place, since the query is a copy that `lay_out` has made. It takes T * K
    # multiplications instead of T * S. That is more for short sentences, but little beside the
    # T * S * K of the product.
    scores = torch.bmm(query.mul_(query.shape[-1] ** -0.5), key.transpose(1, 2))  # (B * H, T, S)
    if for_keys is not None:
        scores += spread_by_distance(query @ for_keys.t(), scores.shape[2])
    real = layout.real[group]  # (B, T)
    by_row = scores.view(len(real), -1, *scores.shape[1:])  # (B, H, T, S)
    by_row.masked_fill_(layout.hidden[group], -math.inf)
    weights = softmax(scores)  # (B * H, T, S)
    # Padded queries repeat the last token of their row, and so do their gradients (see `backward`).
    # With weights, keys and values would get that token's gradient more than once.
    weights.view(by_row.shape).masked_fill_(~real[:, None, :, None], 0.0)
    return weights


class _PaddedAttention(torch.autograd.Function):
    """Equation 1 product by product, in place if possible. Saves only the inputs and the weights.

    For the queries Q, keys K and values V of one head of a sentence, the scores S, the weights A,
    the output O and its gradient dO:

        Q' = Q / sqrt(width)       S = Q' K^T       A = softmax(S)     O = A V
        dV = A^T dO                dA = dO V^T      dS = A * (dA - the row sums of A * dA)
        dQ = dS K / sqrt(width)    dK = dS^T Q'

    The gradients need Q', K, V and A, so these are saved. S and O are not needed. Neither is the
    mask: the weight of a hidden key is 0, and so is its part of dS. Flash attention does not even
    save A, but computes it again. Here A is small: a sentence of 14 tokens has 14 * 14 = 196
    weights a head, and 3 * 14 * 64 = 2,688 numbers of Q', K and V in heads of width 64.

    Relative positions add Q' R^T to the scores and D R to the output, spread over and summed up by
    distance, so Q' serves them as well. D, the weights by distance (T, 2k + 1), is saved, too.

    Why by hand: autograd refuses to set weights to 0 in place after a softmax, which saves them.

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
        queries, keys = layout.queries, layout.keys
        dtype = projected[0].dtype
        wide = batched_type(projected[0])
        for_keys, for_values = (None if x is None else x.to(wide) for x in (for_keys, for_values))
        # (P, K), (P, K), (P, V)
        narrow = list(in_heads(projected, queries, keys))
        laid_out = [x.to(wide) for x in narrow]
        attended = laid_out[0].new_empty(len(queries.tokens), laid_out[2].shape[1])  # (P, V)
        each: list[tuple[Tensor, Tensor | None]] = []  # weights of a group, and by distance
        parts = [side.groups(x) for side, x in zip((queries, keys, keys), laid_out, strict=True)]
        groups = zip(*parts, queries.groups(attended), strict=True)
        for group, (query, key, value, out) in enumerate(groups):
            weights = padded_weights(query, key, layout, group, for_keys)
            # Into its part of the result of all groups, so that nothing is concatenated.
            torch.bmm(weights, value, out=out)  # (B * H, T, V)
            by_distance = None
            if for_values is not None:
                by_distance = sum_by_distance(weights, len(for_values) // 2)
                out += by_distance @ for_values
            each.append((weights, by_distance))
        # Which of both: in fp32 they are the same, with the query scaled.
        saved = laid_out if wide == dtype else narrow
        ctx.save_for_backward(for_keys, for_values, *saved, *chain(*each))
        ctx.layout, ctx.parts = layout, [x.shape[1] for x in projected]
        return queries.packed(attended[None])[:, 0].to(dtype)  # (n, H, V)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        for_keys, for_values, *saved = ctx.saved_tensors
        layout, sides = ctx.layout, (ctx.layout.queries, ctx.layout.keys, ctx.layout.keys)
        laid_out, each = [x.to(batched_type(x)) for x in saved[:3]], saved[3:]
        if laid_out[0] is not saved[0]:
            laid_out[0] *= laid_out[0].shape[-1] ** -0.5
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
        for_attended = layout.queries.groups(
            layout.queries.lay_out(gradients[0][:, None], 0).to(laid_out[0].dtype)
        )
        for_relative = [None if x is None else torch.zeros_like(x) for x in (for_keys, for_values)]
        for group, gradient in enumerate(for_attended):  # (B * H, T, V)
            query, key, value = (x[group] for x in inputs)
            for_query, for_key, for_value = (x[group] for x in outputs)
            weights, by_distance = each[2 * group : 2 * group + 2]
            for_scores = torch.bmm(gradient, value.transpose(1, 2))  # (B * H, T, S)
            if for_values is not None:
                by_value = gradient @ for_values.t()  # (B * H, T, 2k + 1)
                for_scores += spread_by_distance(by_value, for_scores.shape[2])
                # (2k + 1, V): summed over rows, heads and queries
                for_relative[1] += by_distance.flatten(0, 1).t() @ gradient.flatten(0, 1)
            # Hidden keys and padded queries have the weight 0, and so no gradient.
            for_scores = softmax_gradient(for_scores, weights)
            torch.bmm(for_scores, key, out=for_query)  # (B * H, T, K)
            if for_keys is not None:
                by_score = sum_by_distance(for_scores, len(for_keys) // 2)
                for_query += by_score @ for_keys
                for_relative[0] += by_score.flatten(0, 1).t() @ query.flatten(0, 1)
            for_query.mul_(query.shape[-1] ** -0.5)  # for_key needs none: query is scaled
            torch.bmm(for_scores.transpose(1, 2), query, out=for_key)
            torch.bmm(weights.transpose(1, 2), gradient, out=for_value)
        # `for_query`, `for_key` and `for_value` are views of `for_laid_out`, which is full now.
        dtype = gradients[0].dtype
        packed = [
            (layout.keys if number else layout.queries).packed(x.to(dtype))
            for number, x in enumerate(for_laid_out)
        ]
        return None, *[None if x is None else x.to(dtype) for x in for_relative], *packed
