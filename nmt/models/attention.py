"""Multi-head attention (Vaswani et al. 2017, section 3.2), over sentences and step by step.

Legend: B sentences, T queries, S keys, D d_model, H heads, K = D / H the width of a head, n and m
tokens of packed sentences.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nmt.models.initial import input_projections, output_projection
from nmt.models.linear import linear
from nmt.models.packed_attention import Sentences, attend_packed


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(query key^T / sqrt(K)) value (equation 1).

    Args:
        query: (B, H, T, K).
        key, value: (B, H, S, K).
        mask: bool, broadcastable to (B, H, T, S), True = may attend; None: everywhere.

    Returns:
        (B, H, T, K).
    """
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)  # (B, H, T, S)
    if mask is not None:
        scores.masked_fill_(~mask, -math.inf)
    attended: Tensor = scores.softmax(dim=-1) @ value
    return attended  # (B, H, T, K)


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

    def forward(self, x: Tensor, sentences: Sentences, *, causal: bool = False) -> Tensor:
        """Attend within each sentence of x (n, D), or only to what stands before: (n, D)."""
        qkv = linear(x, self.qkv).view(len(x), 3, self.num_heads, -1)  # (n, 3, H, K)
        attended = attend_packed(qkv, None, sentences, sentences, causal=causal)  # (n, H, K)
        return linear(attended.flatten(1), self.output)  # (n, D)


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

    def forward(self, x: Tensor, own: Sentences, memory: Tensor, others: Sentences) -> Tensor:
        """Attend from each sentence of x (n, D) to that of memory (m, D): (n, D)."""
        query = linear(x, self.query).view(len(x), 1, self.num_heads, -1)  # (n, 1, H, K)
        key_value = linear(memory, self.key_value).view(len(memory), 2, self.num_heads, -1)
        attended = attend_packed(query, key_value, own, others)  # (n, H, K)
        return linear(attended.flatten(1), self.output)  # (n, D)

    def step(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
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
