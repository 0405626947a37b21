"""Attention among packed sentences (Vaswani et al. 2017, section 3.2), as training needs it.

On GPUs since Ampere, in half precision, flash attention (Dao 2023) takes sentences as they are
packed. Elsewhere they are laid out in tables, which costs next to nothing: heads have to be copied
apart in any case.

Legend: B sentences, L tokens of the longest (T of queries, S of keys), H heads of width K, n and m
tokens of packed sentences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nmt.data.batches import Packed


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

    @classmethod
    def of(cls, packed: Packed, *, as_packed: bool) -> Sentences:
        """Make what is needed."""
        return cls(packed, None if as_packed else Table.of(packed))


def takes_packed(like: Tensor, head_width: int) -> bool:
    """Tell whether there is an attention that takes packed sentences as they are.

    Args:
        like: a tensor of the type, and on the device, of what will be attended to.
        head_width: K.
    """
    return (
        like.is_cuda
        and like.dtype in (torch.bfloat16, torch.float16)
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
    queries: Tensor,
    keys_values: Tensor | None,
    own: Sentences,
    others: Sentences,
    *,
    causal: bool = False,
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1), sentence by sentence.

    Args:
        queries: (n, 1, H, K), or (n, 3, H, K) with the keys and values of the same tokens.
        keys_values: (m, 2, H, K), unless queries have them.
        own: the sentences of the queries.
        others: the sentences of the keys and values, as many.
        causal: whether a token attends to none behind it.

    Returns:
        (n, H, K).
    """
    if own.table is None or others.table is None:
        query, *rest = queries.unbind(1)  # each (n, H, K)
        key, value = rest if keys_values is None else keys_values.unbind(1)
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
    padded: Tensor = _PaddedAttention.apply(queries, keys_values, causal, *tables)  # type: ignore[no-untyped-call]
    return padded


def attention_weights(
    queries: Tensor,
    keys_values: Tensor | None,
    own: Sentences,
    others: Sentences,
    *,
    causal: bool = False,
) -> Tensor:
    """Return the weights by which `attend_packed` sums values, without a gradient.

    Args:
        queries, keys_values, own, others, causal: those of `attend_packed`.

    Returns:
        (B, H, T, S) in fp32 at least, 0 at padding of either side.
    """
    own_table, others_table = (
        own.table or Table.of(own.packed),
        others.table or Table.of(others.packed),
    )
    wide = torch.promote_types(queries.dtype, torch.float32)
    query = own_table.heads(queries.to(wide), 0)  # (B * H, T, K)
    if keys_values is None:
        key = own_table.heads(queries.to(wide), 1)  # (B * H, S, K)
    else:
        key = others_table.heads(keys_values.to(wide), 0)
    weights = _weights_in_tables(query, key, own_table, others_table, causal)
    return weights.view(len(own_table.tokens), -1, *weights.shape[1:])


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
    def forward(
        ctx: Any, queries: Tensor, keys_values: Tensor | None, causal: bool, *tables: Tensor
    ) -> Tensor:
        own, others = Table(*tables[:4]), Table(*tables[4:])
        query = own.heads(queries, 0)  # (B * H, T, K)
        if keys_values is None:
            key, value = own.heads(queries, 1), own.heads(queries, 2)  # (B * H, S, K)
        else:
            key, value = others.heads(keys_values, 0), others.heads(keys_values, 1)
        weights = _weights_in_tables(query, key, own, others, causal)  # scales query
        ctx.save_for_backward(query, key, value, weights, *tables)
        ctx.fused = keys_values is None
        return own.packed(torch.bmm(weights, value)[None])[:, 0]  # (n, H, K)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, *tables = ctx.saved_tensors
        own, others = Table(*tables[:4]), Table(*tables[4:])
        gradient = own.heads(gradients[0][:, None], 0)  # (B * H, T, K)
        for_scores = torch.bmm(gradient, value.transpose(1, 2))  # (B * H, T, S)
        for_scores = torch.ops.aten._softmax_backward_data(for_scores, weights, -1, weights.dtype)
        for_query = torch.bmm(for_scores, key).mul_(query.shape[-1] ** -0.5)  # (B * H, T, K)
        for_key = torch.bmm(for_scores.transpose(1, 2), query)  # (B * H, S, K)
        for_value = torch.bmm(weights.transpose(1, 2), gradient)  # (B * H, S, K)
        none = (None,) * (1 + len(tables))
        if ctx.fused:
            return own.packed(torch.stack((for_query, for_key, for_value))), None, *none
        for_keys_values = others.packed(torch.stack((for_key, for_value)))
        return own.packed(for_query[None]), for_keys_values, *none
