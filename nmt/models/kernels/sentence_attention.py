"""Attention among packed sentences on a GPU, in Triton, after flash attention (Dao 2023).

Flash attention is made for thousands of tokens. It cuts them into tiles of up to 128 queries, and
few sentences are that long. Here a head of a sentence is one program with tiles of 64 queries and
keys, so most sentences are a single tile, and their gradients need no second pass. The result does
not depend on the other sentences of a batch, and it is the same each time.

Legend: B sentences, n and m tokens of packed sentences, H heads, K the width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.models.kernels.padded_layout import Projected

_LOG2_E = 1.4426950408889634
_BLOCK, _WARPS = 64, 4
"""Queries and keys of a tile, and the warps that compute it. Smaller tiles for shorter sentences
gain nothing on an H100."""


@triton.jit
def _load(start, rows, end, stride, width):
    """Load rows (BLOCK, K) of a head, zeros from `end` on."""
    places = start + rows[:, None].to(tl.int64) * stride + width[None]
    return tl.load(places, mask=rows[:, None] < end, other=0.0)


@triton.jit
def _store(start, rows, end, stride, width, x):
    """Store rows (BLOCK, K) of a head before `end`."""
    places = start + rows[:, None].to(tl.int64) * stride + width[None]
    tl.store(places, x.to(start.dtype.element_ty), mask=rows[:, None] < end)


@triton.jit
def _scores(q, k, rows, columns, end_key, ahead, scale, after):
    """Return the scores of a tile by base 2, very low where a query does not see a key.

    ahead: how far the first key of a sentence is behind its first query in memory.
    """
    scores = tl.dot(q, tl.trans(k)) * scale
    distance = columns[None] - rows[:, None] - ahead
    seen = (columns[None] < end_key) & (distance <= after)
    return tl.where(seen, scores, -1e30)


@triton.jit
def _attend(
    query, key, value, attended, normalizers, query_starts, key_starts,
    query_stride, key_stride, value_stride, scale, after,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1)
    first, end = tl.load(query_starts + sentence), tl.load(query_starts + sentence + 1)
    first_key, end_key = tl.load(key_starts + sentence), tl.load(key_starts + sentence + 1)
    width, block, position = tl.arange(0, WIDTH), tl.arange(0, BLOCK), head * WIDTH
    for begin in range(first, end, BLOCK):
        rows = begin + block
        q = _load(query + position, rows, end, query_stride, width)
        highest = tl.full((BLOCK,), -1e30, tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        summed = tl.zeros((BLOCK, WIDTH), tl.float32)
        for begin_key in range(first_key, end_key, BLOCK):
            columns = begin_key + block
            k = _load(key + position, columns, end_key, key_stride, width)
            v = _load(value + position, columns, end_key, value_stride, width)
            ahead = first_key - first
            # (BLOCK, BLOCK)
            scores = _scores(q, k, rows, columns, end_key, ahead, scale, after)
            higher = tl.maximum(highest, tl.max(scores, 1))
            weights = tl.exp2(scores - higher[:, None])
            shrunk = tl.exp2(highest - higher)
            total = total * shrunk + tl.sum(weights, 1)
            summed = summed * shrunk[:, None] + tl.dot(weights.to(v.dtype), v)
            highest = higher
        _store(attended + position, rows, end, HEADS * WIDTH, width, summed / total[:, None])
        places = normalizers + rows.to(tl.int64) * HEADS + head
        tl.store(places, highest + tl.log2(total), mask=rows < end)


@triton.jit
def _load_queries(
    query, attended, gradients, normalizers, rows, end, query_stride, head, width,
    HEADS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Return queries and gradients (BLOCK, K), normalizers and the sums of gradient * attended."""
    position = head * WIDTH
    q = _load(query + position, rows, end, query_stride, width)
    gradient = _load(gradients + position, rows, end, HEADS * WIDTH, width)
    result = _load(attended + position, rows, end, HEADS * WIDTH, width)
    places = normalizers + rows.to(tl.int64) * HEADS + head
    normalizer = tl.load(places, mask=rows < end, other=0.0)
    return q, gradient, normalizer, tl.sum(gradient.to(tl.float32) * result.to(tl.float32), 1)


@triton.jit
def _differentiate(
    q, k, v, gradient, normalizer, along, rows, columns, end_key, ahead, scale, after
):
    """Return the weights of a tile, and the gradient of its scores without their scale."""
    scores = _scores(q, k, rows, columns, end_key, ahead, scale, after)
    weights = tl.exp2(scores - normalizer[:, None])
    for_weights = tl.dot(gradient, tl.trans(v))
    return weights.to(q.dtype), (weights * (for_weights - along[:, None])).to(q.dtype)


@triton.jit
def _attend_backward(
    query, key, value, attended, normalizers, gradients, for_query, for_key, for_value,
    query_starts, key_starts, query_stride, key_stride, value_stride,
    for_query_stride, for_key_stride, for_value_stride, scale, factor, after,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1)
    first, end = tl.load(query_starts + sentence), tl.load(query_starts + sentence + 1)
    first_key, end_key = tl.load(key_starts + sentence), tl.load(key_starts + sentence + 1)
    ahead = first_key - first
    width, block, position = tl.arange(0, WIDTH), tl.arange(0, BLOCK), head * WIDTH
    if (end - first <= BLOCK) & (end_key - first_key <= BLOCK):
        rows, columns = first + block, first_key + block
        k = _load(key + position, columns, end_key, key_stride, width)
        v = _load(value + position, columns, end_key, value_stride, width)
        q, gradient, normalizer, along = _load_queries(
            query, attended, gradients, normalizers, rows, end, query_stride, head, width,
            HEADS, WIDTH,
        )  # fmt: skip
        weights, for_scores = _differentiate(
            q, k, v, gradient, normalizer, along, rows, columns, end_key, ahead, scale, after,
        )  # fmt: skip
        by_query = tl.dot(for_scores, k) * factor  # (BLOCK, K), as the next two
        by_key = tl.dot(tl.trans(for_scores), q) * factor
        by_value = tl.dot(tl.trans(weights), gradient)
        _store(for_query + position, rows, end, for_query_stride, width, by_query)
        _store(for_key + position, columns, end_key, for_key_stride, width, by_key)
        _store(for_value + position, columns, end_key, for_value_stride, width, by_value)
    else:  # once by queries and once by keys, so that no sum is shared between programs
        for begin in range(first, end, BLOCK):
            rows = begin + block
            q, gradient, normalizer, along = _load_queries(
                query, attended, gradients, normalizers, rows, end, query_stride, head, width,
                HEADS, WIDTH,
            )  # fmt: skip
            by_query = tl.zeros((BLOCK, WIDTH), tl.float32)
            for begin_key in range(first_key, end_key, BLOCK):
                columns = begin_key + block
                k = _load(key + position, columns, end_key, key_stride, width)
                v = _load(value + position, columns, end_key, value_stride, width)
                weights, for_scores = _differentiate(
                    q, k, v, gradient, normalizer, along, rows, columns, end_key, ahead, scale,
                    after,
                )  # fmt: skip
                by_query += tl.dot(for_scores, k)
            _store(for_query + position, rows, end, for_query_stride, width, by_query * factor)
        for begin_key in range(first_key, end_key, BLOCK):
            columns = begin_key + block
            k = _load(key + position, columns, end_key, key_stride, width)
            v = _load(value + position, columns, end_key, value_stride, width)
            by_key = tl.zeros((BLOCK, WIDTH), tl.float32)
            by_value = tl.zeros((BLOCK, WIDTH), tl.float32)
            for begin in range(first, end, BLOCK):
                rows = begin + block
                q, gradient, normalizer, along = _load_queries(
                    query, attended, gradients, normalizers, rows, end, query_stride, head, width,
                    HEADS, WIDTH,
                )  # fmt: skip
                weights, for_scores = _differentiate(
                    q, k, v, gradient, normalizer, along, rows, columns, end_key, ahead, scale,
                    after,
                )  # fmt: skip
                by_key += tl.dot(tl.trans(for_scores), q)
                by_value += tl.dot(tl.trans(weights), gradient)
            _store(for_key + position, columns, end_key, for_key_stride, width, by_key * factor)
            _store(for_value + position, columns, end_key, for_value_stride, width, by_value)


def attend_sentences(
    projected: Projected, query_starts: Tensor, key_starts: Tensor, *, after: int
) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value, sentence by sentence.

    projected: queries, keys and values on a GPU, in half precision; K is a power of 2 from 16.
    query_starts: (B + 1,) int32, the start of each sentence of queries, and the last end.
    key_starts: (B + 1,) int32, the same of keys and values.
    after: how far a query sees past its own position; 0: causal.
    Returns (n, H, K).
    """
    attended: Tensor = _Attention.apply(query_starts, key_starts, after, *projected)
    return attended


class _Attention(torch.autograd.Function):
    """The two operators below as a function and its gradient."""

    @staticmethod
    def forward(
        ctx: Any, query_starts: Tensor, key_starts: Tensor, after: int, *projected: Tensor
    ) -> Tensor:
        attended, normalizers = torch.ops.nmt.attend_sentences(
            projected, query_starts, key_starts, after
        )
        ctx.save_for_backward(attended, normalizers, query_starts, key_starts, *projected)
        ctx.after = after
        result: Tensor = attended
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        attended, normalizers, query_starts, key_starts, *projected = ctx.saved_tensors
        for_projected: list[Tensor] = torch.ops.nmt.attend_sentences_backward(
            projected, attended, normalizers, gradients[0], query_starts, key_starts, ctx.after
        )
        return None, None, None, *for_projected


# Operators, because torch.compile takes them as they are.
_operators = torch.library.Library("nmt", "DEF")
_operators.define(
    "attend_sentences(Tensor[] projected, Tensor query_starts, Tensor key_starts, int after)"
    " -> (Tensor, Tensor)"
)
_operators.define(
    "attend_sentences_backward(Tensor[] projected, Tensor attended, Tensor normalizers,"
    " Tensor gradient, Tensor query_starts, Tensor key_starts, int after) -> Tensor[]"
)


def _forward(
    projected: Sequence[Tensor], query_starts: Tensor, key_starts: Tensor, after: int
) -> tuple[Tensor, Tensor]:
    """Return the result of attention and, for each query and head, the log2 of its divisor."""
    attended, normalizers = _results(projected)  # (n, H, K), (n, H)
    _, heads, width = attended.shape
    parts = _parts(projected)
    _attend[len(query_starts) - 1, heads](
        *parts, attended, normalizers, query_starts, key_starts,
        *(part.stride(0) for part in parts),
        _LOG2_E * width**-0.5, after, heads, width, _BLOCK, num_warps=_WARPS,
    )  # fmt: skip
    return attended, normalizers


def _backward(
    projected: Sequence[Tensor],
    attended: Tensor,
    normalizers: Tensor,
    gradient: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    after: int,
) -> list[Tensor]:
    """Return the gradients of `projected`."""
    _, heads, width = attended.shape
    for_projected = _gradients(projected)
    parts, for_parts = _parts(projected), _parts(for_projected)
    _attend_backward[len(query_starts) - 1, heads](
        *parts, attended, normalizers, gradient.contiguous(), *for_parts, query_starts, key_starts,
        *(part.stride(0) for part in (*parts, *for_parts)),
        _LOG2_E * width**-0.5, width**-0.5, after, heads, width, _BLOCK, num_warps=_WARPS,
    )  # fmt: skip
    return for_projected


def _parts(projected: Sequence[Tensor]) -> list[Tensor]:
    """Return queries, keys and values, each (n or m, H, K)."""
    return [part for x in projected for part in x.unbind(1)]


def _results(projected: Sequence[Tensor], *_inputs: object) -> tuple[Tensor, Tensor]:
    """Return tensors like those of `_forward`."""
    count, _, heads, width = projected[0].shape
    attended = projected[0].new_empty(count, heads, width)
    return attended, attended.new_empty(count, heads, dtype=torch.float32)


def _gradients(projected: Sequence[Tensor], *_inputs: object) -> list[Tensor]:
    """Return tensors like those of `_backward`."""
    return [x.new_empty(x.shape) for x in projected]


for _name, _function, _like in (
    ("attend_sentences", _forward, _results),
    ("attend_sentences_backward", _backward, _gradients),
):
    _operators.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"nmt::{_name}", _like, lib=_operators)
