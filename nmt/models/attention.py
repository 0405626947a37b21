"""Multi-head attention (Vaswani et al. 2017, section 3.2), over sentences and step by step.

Legend: B sentences, T queries, S keys, D d_model, H heads, K = D / H the width of a head, n and m
tokens of packed sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from nmt.models.initial import input_projections, output_projection
from nmt.models.linear import linear
from nmt.models.packed_attention import Sentences, attend_packed, attention_weights

# On CPUs torch makes products of a batch that have less work than this, each, by a loop of its own,
# which is several times slower than operations on all of them.
_NAIVE = 400


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
    weights = scores.softmax(dim=-1)  # (B, H, T, S)
    work = math.prod(value.shape[2:])
    if weights.shape[2] == 1 and work < _NAIVE and value.device.type == "cpu":
        attended: Tensor = (weights.transpose(2, 3) * value).sum(dim=2, keepdim=True)
    else:
        attended = weights @ value
    return attended  # (B, H, T, K)


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; the three input projections are one product.

    As in the paper, projections are matrices without bias.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Parameter(input_projections(d_model, 3))  # (3D, D)
        self.output = nn.Parameter(output_projection(d_model, d_model))  # (D, D)

    def project(self, x: Tensor) -> Tensor:
        """Return queries, keys and values of x (n, D), as one (n, 3, H, K)."""
        return linear(x, self.qkv).view(len(x), 3, self.num_heads, -1)

    def forward(self, x: Tensor, sentences: Sentences, *, causal: bool = False) -> Tensor:
        """Attend within each sentence of x (n, D), or only to what stands before: (n, D)."""
        qkv = self.project(x)  # (n, 3, H, K)
        attended = attend_packed(qkv, None, sentences, sentences, causal=causal)  # (n, H, K)
        return linear(attended.flatten(1), self.output)  # (n, D)

    def weights(self, x: Tensor, sentences: Sentences, *, causal: bool = False) -> Tensor:
        """Return the weights that `forward` attends by, (B, H, T, T), without a gradient."""
        return attention_weights(self.project(x), None, sentences, sentences, causal=causal)


class CrossAttention(nn.Module):
    """Attention of the decoder to the memory."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Parameter(input_projections(d_model, 1))  # (D, D)
        self.key_value = nn.Parameter(input_projections(d_model, 2))  # (2D, D)
        self.output = nn.Parameter(output_projection(d_model, d_model))  # (D, D)

    def project_memory(self, memory: Tensor) -> Tensor:
        """Return keys and values of memory (B, S, D), as one (2, B, H, S, K): once a sentence."""
        sentences, length, _ = memory.shape
        projected = linear(memory, self.key_value)  # (B, S, 2D)
        heads = projected.view(sentences, length, 2, self.num_heads, -1)  # (B, S, 2, H, K)
        return heads.permute(2, 0, 3, 1, 4).contiguous()  # or each step would copy them

    def forward(self, x: Tensor, own: Sentences, memory: Tensor, others: Sentences) -> Tensor:
        """Attend from each sentence of x (n, D) to that of memory (m, D): (n, D)."""
        attended = attend_packed(*self._project(x, memory), own, others)  # (n, H, K)
        return linear(attended.flatten(1), self.output)  # (n, D)

    def weights(self, x: Tensor, own: Sentences, memory: Tensor, others: Sentences) -> Tensor:
        """Return the weights that `forward` attends by, (B, H, T, S), without a gradient."""
        return attention_weights(*self._project(x, memory), own, others)

    def _project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries (n, 1, H, K) of x, and keys and values (m, 2, H, K) of the memory."""
        query = linear(x, self.query).view(len(x), 1, self.num_heads, -1)
        return query, linear(memory, self.key_value).view(len(memory), 2, self.num_heads, -1)


@runtime_checkable
class Attention(Protocol):
    """A module that can also return the weights that its forward pass attends by."""

    def weights(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the weights (B, H, queries, keys) for the arguments of the forward pass."""


@contextmanager
def noting_weights(attentions: Iterable[nn.Module]) -> Iterator[dict[nn.Module, Tensor]]:
    """Note the weights of each attention as the model goes through it.

    They are computed beside the pass, from the very inputs of each attention, so that the pass
    knows nothing of it.
    """
    noted: dict[nn.Module, Tensor] = {}

    def note(attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert isinstance(attention, Attention)
        noted[attention] = attention.weights(*args, **kwargs)

    with ExitStack() as hooks:
        for attention in attentions:
            hooks.enter_context(attention.register_forward_pre_hook(note, with_kwargs=True))
        yield noted


def attend_grouped(query: Tensor, key_value: Tensor, mask: Tensor) -> Tensor:
    """Attend from the N = B * W hypotheses of B sentences to their sentence's memory.

    Args:
        query: (N, D).
        key_value: (2, B, H, S, K).
        mask: (B, S) bool, True = a real token.

    Returns:
        (N, D).
    """
    key, value = key_value
    sentences, heads, _, width = key.shape
    # The W hypotheses of a sentence stand as W queries before its one memory.
    queries = query.view(sentences, -1, heads, width).transpose(1, 2)  # (B, H, W, K)
    attended = attend(queries, key, value, mask[:, None, None])  # (B, H, W, K)
    return attended.transpose(1, 2).reshape(query.shape)
