"""Attention among packed sentences (Vaswani et al. 2017, section 3.2), as training needs it.

On GPUs since Ampere, in half precision, flash attention (Dao 2023) takes sentences as they are
packed. Elsewhere they are laid out in tables, which costs next to nothing: heads have to be copied
apart in any case.

Legend: B sentences, L tokens of the longest (T of queries, S of keys), H heads, K and V the widths
of a head's keys and of its values, n and m tokens of packed sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from nmt.data.batches import Packed

Projected = Sequence[Tensor]
"""Queries, keys and values as products have made them: tensors (n, parts, H, width) whose parts are
those three, in this order. The first tensor is of the tokens that attend, the others are of those
attended to: (queries with keys and values,), (queries, keys with values), or, where keys and values
differ in width or in what is done to them, (queries with keys, values) or (queries, keys, values).
"""


@dataclass(frozen=True)
class Table:
    """Where the tokens of packed sentences stand if each sentence is a row of a table."""

    tokens: Tensor  # (B, L) int64: the token at each place; its sentence's last one at padding
    mask: Tensor  # (B, L) bool: True = a real token
    sentences: Tensor  # (n,) int64: the row of each token
    positions: Tensor  # (n,) int64: and its column

    @classmethod
    def of(cls, packed: Packed) -> Table:
        """Lay the sentences out."""
        columns = torch.arange(packed.longest, device=packed.starts.device)  # (L,)
        starts, ends = packed.starts[:-1, None].long(), packed.starts[1:, None].long()  # (B, 1)
        tokens = torch.minimum(starts + columns, ends - 1)  # (B, L)
        return cls(tokens, columns < ends - starts, packed.sentences, packed.positions)

    def rows(self, x: Tensor) -> Tensor:
        """Lay out x (n, D): (B, L, D)."""
        return x.index_select(0, self.tokens.flatten()).view(*self.tokens.shape, -1)

    def heads(self, x: Tensor, part: int) -> Tensor:
        """Lay out one part of x (n, parts, H, K) by heads: (B * H, L, K)."""
        _, parts, heads, width = x.shape
        first = (self.tokens * parts + part)[:, None] * heads  # (B, 1, L)
        chosen = first + torch.arange(heads, device=x.device)[:, None]  # (B, H, L)
        laid_out = x.reshape(-1, width).index_select(0, chosen.flatten())  # (B * H * L, K)
        return laid_out.view(-1, self.tokens.shape[1], width)

    def packed(self, laid_out: Tensor) -> Tensor:
        """Undo `heads` for all parts at once: (parts, B * H, L, K) -> (n, parts, H, K)."""
        parts, rows, length, width = laid_out.shape
        sentences = len(self.tokens)
        part = torch.arange(parts, device=laid_out.device)[:, None] * sentences  # (parts, 1)
        head = torch.arange(rows // sentences, device=laid_out.device)  # (H,)
        row = (self.sentences[:, None, None] + part) * len(head) + head  # (n, parts, H)
        chosen = row * length + self.positions[:, None, None]  # (n, parts, H)
        return laid_out.view(-1, width).index_select(0, chosen.flatten()).view(*row.shape, width)


@dataclass(frozen=True)
class Sentences:
    """What attention has to know of packed sentences; made once a forward pass."""

    packed: Packed
    table: Table | None
    """None where attention takes them as they are packed."""
    rotation: Tensor | None = None
    """(n, K): by what self-attention turns queries and keys, if it does (see `rotated`)."""

    @classmethod
    def of(cls, packed: Packed, *, as_packed: bool, rotation: Tensor | None = None) -> Sentences:
        """Make what is needed."""
        return cls(packed, None if as_packed else Table.of(packed), rotation)


def takes_packed(like: Tensor, head_width: int, value_width: int) -> bool:
    """Tell whether there is an attention that takes packed sentences as they are.

    Args:
        like: a tensor of the type, and on the device, of what will be attended to.
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
"""By GPU. torch.compile, which cannot ask a GPU what it is, finds the answer here."""


def _has_flash_attention(gpu: int) -> bool:
    if gpu not in _is_known_to_have_flash_attention:
        since_ampere = torch.cuda.get_device_capability(gpu) >= (8, 0)
        _is_known_to_have_flash_attention[gpu] = since_ampere
    return _is_known_to_have_flash_attention[gpu]


def attend_packed(
    projected: Projected, own: Sentences, others: Sentences, *, causal: bool = False
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1), sentence by sentence.

    Args:
        projected: queries, keys and values.
        own: the sentences of the queries.
        others: the sentences of the keys and values, as many.
        causal: whether a token attends to none behind it.

    Returns:
        (n, H, V).
    """
    if own.table is None or others.table is None:
        query, key, value = (part for x in projected for part in x.unbind(1))  # (n or m, H, K)
        # Here, because it takes longer to import than all of torch, and CPUs have no use for it.
        from torch.nn.attention.varlen import varlen_attn

        attended = varlen_attn(
            query,
            key,
            value,
            own.packed.starts,
            others.packed.starts,
            own.packed.longest,
            others.packed.longest,
            window_size=(-1, 0 if causal else -1),
        )
        assert isinstance(attended, Tensor)
        return attended
    tables = [t for table in (own.table, others.table) for t in vars(table).values()]
    padded: Tensor = _PaddedAttention.apply(causal, *tables, *projected)  # type: ignore[no-untyped-call]
    return padded


def attention_weights(
    projected: Projected, own: Sentences, others: Sentences, *, causal: bool = False
) -> Tensor:
    """Return the weights by which `attend_packed` sums values, without a gradient.

    Args:
        projected, own, others, causal: those of `attend_packed`.

    Returns:
        (B, H, T, S) in fp32 at least, 0 at padding of either side.
    """
    own_table, others_table = (
        own.table or Table.of(own.packed),
        others.table or Table.of(others.packed),
    )
    wide = torch.promote_types(projected[0].dtype, torch.float32)
    parts = _in_heads([x.to(wide) for x in projected], own_table, others_table)
    query, key = islice(parts, 2)  # (B * H, T, K), (B * H, S, K)
    weights = _weights_in_tables(query, key, own_table, others_table, causal)
    return weights.view(len(own_table.tokens), -1, *weights.shape[1:])


def _in_heads(projected: Projected, own: Table, others: Table) -> Iterator[Tensor]:
    """Yield queries (B * H, T, K), keys (B * H, S, K) and values (B * H, S, V)."""
    for number, x in enumerate(projected):
        table = others if number else own
        for part in range(x.shape[1]):
            yield table.heads(x, part)


def _weights_in_tables(
    query: Tensor, key: Tensor, own: Table, others: Table, causal: bool
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)), (B * H, T, S), and 0 at padding.

    Args:
        query: (B * H, T, K), which is overwritten.
        key: (B * H, S, K).
        own, others: where the queries and the keys stand.
        causal: whether a token attends to none behind it.
    """
    scores = torch.bmm(query.mul_(query.shape[-1] ** -0.5), key.transpose(1, 2))  # (B * H, T, S)
    by_sentence = scores.view(len(own.tokens), -1, *scores.shape[1:])  # (B, H, T, S)
    if causal:  # which keeps padding, at the end, from every real position
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device).triu(1)
    else:
        hidden = ~others.mask[:, None, None]  # (B, 1, 1, S)
    by_sentence.masked_fill_(hidden, -math.inf)
    weights = scores.softmax(dim=-1)  # (B * H, T, S)
    # What padding attends to must not get a gradient from it.
    weights.view(by_sentence.shape).masked_fill_(~own.mask[:, None, :, None], 0.0)
    return weights


class _PaddedAttention(torch.autograd.Function):
    """Equation 1 product by product, in tables of sentences, in place where it can be: nothing is
    kept but the inputs and the weights, and no pass is made over them that autograd would make.

    The backward pass of torch's fused attention costs CPUs several times these plain products at
    the lengths of sentences, most of all in bf16.
    """

    @staticmethod
    def forward(ctx: Any, causal: bool, *tensors: Tensor) -> Tensor:
        own, others, projected = Table(*tensors[:4]), Table(*tensors[4:8]), tensors[8:]
        query, key, value = _in_heads(projected, own, others)
        weights = _weights_in_tables(query, key, own, others, causal)  # scales query
        ctx.save_for_backward(query, key, value, weights, *tensors[:8])
        ctx.parts = [x.shape[1] for x in projected]
        return own.packed(torch.bmm(weights, value)[None])[:, 0]  # (n, H, V)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, *tables = ctx.saved_tensors
        own, others = Table(*tables[:4]), Table(*tables[4:])
        gradient = own.heads(gradients[0][:, None], 0)  # (B * H, T, V)
        for_scores = torch.bmm(gradient, value.transpose(1, 2))  # (B * H, T, S)
        for_scores = torch.ops.aten._softmax_backward_data(for_scores, weights, -1, weights.dtype)
        for_query = torch.bmm(for_scores, key).mul_(query.shape[-1] ** -0.5)  # (B * H, T, K)
        for_key = torch.bmm(for_scores.transpose(1, 2), query)  # (B * H, S, K)
        for_value = torch.bmm(weights.transpose(1, 2), gradient)  # (B * H, S, V)
        parts = iter((for_query, for_key, for_value))
        for_projected = []
        for number, count in enumerate(ctx.parts):
            first, *more = islice(parts, count)
            laid_out = torch.stack((first, *more)) if more else first[None]
            for_projected.append((others if number else own).packed(laid_out))
        return None, *(None for _ in tables), *for_projected
