"""Multi-head attention (Vaswani et al. 2017, section 3.2), for training and step by step.

Legend: B sentences, T queries, S keys, D d_model, H heads, K = D / H the width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.initial import input_projections, output_projection
from nmt.models.linear import linear


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1).

    Args:
        query: (B, H, T, K).
        key, value: (B, H, S, K).
        mask: bool, broadcastable to (B, H, T, S), True = may attend; None: everywhere.

    Returns:
        (B, H, T, K).
    """
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    # On CPUs the fused kernel's backward pass costs several times these plain products at the
    # lengths of sentences, most of all in bf16.
    attended: Tensor = _PlainAttention.apply(query, key, value, mask)  # type: ignore[no-untyped-call]
    return attended


class _PlainAttention(torch.autograd.Function):
    """Equation 1 product by product, in place where it can be: nothing is kept but the inputs and
    the weights, and no pass is made over them that autograd alone would make."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        scaled = _contiguous(query).mul_(query.shape[-1] ** -0.5)  # (B * H, T, K)
        key, value = _contiguous(key), _contiguous(value)  # (B * H, S, K)
        scores = torch.bmm(scaled, key.transpose(1, 2))  # (B * H, T, S)
        if mask is not None:
            scores.view(*query.shape[:3], -1).masked_fill_(~mask, -math.inf)
        weights = scores.softmax(dim=-1)  # (B * H, T, S)
        ctx.save_for_backward(scaled, key, value, weights)
        ctx.heads = query.shape[:2]
        return torch.bmm(weights, value).view(*ctx.heads, *scaled.shape[1:])  # (B, H, T, K)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled, key, value, weights = ctx.saved_tensors
        gradient = gradients[0].reshape(scaled.shape)  # (B * H, T, K)
        for_value = torch.bmm(weights.transpose(1, 2), gradient)  # (B * H, S, K)
        for_scores = torch.bmm(gradient, value.transpose(1, 2))  # (B * H, T, S)
        for_scores = torch.ops.aten._softmax_backward_data(for_scores, weights, -1, weights.dtype)
        for_query = torch.bmm(for_scores, key).mul_(scaled.shape[-1] ** -0.5)  # (B * H, T, K)
        for_key = torch.bmm(for_scores.transpose(1, 2), scaled)  # (B * H, S, K)
        split = (x.view(*ctx.heads, *x.shape[1:]) for x in (for_query, for_key, for_value))
        return *split, None


def _contiguous(heads: Tensor) -> Tensor:
    """(B, H, T, K) of any strides -> (B * H, T, K), a copy that may be written."""
    copy = torch.empty(heads.shape, dtype=heads.dtype, device=heads.device)
    return copy.copy_(heads).flatten(0, 1)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, K)."""
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, D)."""
    batch, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * width)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; the three input projections are one product.

    As in the paper, projections are matrices without bias.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Parameter(input_projections(d_model, 3))  # (3D, D)
        self.output = nn.Parameter(output_projection(d_model, d_model))  # (D, D)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of x (B, T, D), each (B, H, T, K)."""
        query, key, value = linear(x, self.qkv).chunk(3, dim=-1)  # each (B, T, D)
        heads = self.num_heads
        return split_heads(query, heads), split_heads(key, heads), split_heads(value, heads)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Attend within x (B, T, D) where `mask` (broadcastable to (B, H, T, T)) allows it."""
        return linear(merge_heads(attend(*self.project(x), mask)), self.output)  # (B, T, D)


class CrossAttention(nn.Module):
    """Attention of the decoder to the memory."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Parameter(input_projections(d_model, 1))  # (D, D)
        self.key_value = nn.Parameter(input_projections(d_model, 2))  # (2D, D)
        self.output = nn.Parameter(output_projection(d_model, d_model))  # (D, D)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of memory (B, S, D), each (B, H, S, K): once per sentence."""
        key, value = linear(memory, self.key_value).chunk(2, dim=-1)  # each (B, S, D)
        return split_heads(key, self.num_heads), split_heads(value, self.num_heads)

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Attend from x (B, T, D) to projected memory (B, H, S, K): (B, T, D)."""
        query = split_heads(linear(x, self.query), self.num_heads)  # (B, H, T, K)
        attended = merge_heads(attend(query, key, value, mask))  # (B, T, D)
        return linear(attended, self.output)  # (B, T, D)


class KeyValueCache:
    """Keys and values of the positions decoded so far, preallocated and grown by doubling."""

    def __init__(self) -> None:
        self.length = 0
        self._store: Tensor | None = None  # (2, N, H, capacity, K)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add one position's (N, H, 1, K) and return all, each (N, H, length, K)."""
        if self._store is None:
            self._store = key.new_empty(2, *key.shape[:2], 16, key.shape[3])
        elif self.length == self._store.shape[3]:
            self._store = torch.cat((self._store, torch.empty_like(self._store)), dim=3)
        self._store[0, :, :, self.length] = key[:, :, 0]
        self._store[1, :, :, self.length] = value[:, :, 0]
        self.length += 1
        filled = self._store[:, :, :, : self.length]  # (2, N, H, length, K)
        return filled[0], filled[1]

    def select(self, rows: Tensor) -> None:
        """Keep these rows (N',), in this order."""
        if self._store is not None:
            self._store = self._store.index_select(1, rows)
