"""Multi-head attention (Vaswani et al. 2017, section 3.2), over sentences and step by step.

Legend: B sentences, T queries, S keys, D d_model, H heads, K and V the widths of a head's keys and
of its values (the paper's d_k and d_v, mostly both D / H), n and m tokens of packed sentences.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from nmt.config.model_config import TransformerConfig
from nmt.models.kernels.linear import batched_type, linear
from nmt.models.kernels.packed_attention import Sentences, attend_packed
from nmt.models.kernels.padded_layout import Projected
from nmt.models.kernels.relative_positions import Relative, from_last
from nmt.models.kernels.softmax import softmax
from nmt.models.layers import bias, input_projections, output_projection
from nmt.models.positions import RelativePositions, rotated

# Below this size, torch multiplies each matrix of a batch on a CPU by a simple loop. Multiplying
# elementwise and summing is several times faster.
_SMALL_PRODUCT = 400


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_bias: Tensor | None,
    relative: Relative | None = None,
) -> Tensor:
    """Return softmax(query key^T / sqrt(K) + score_bias) value (equation 1).

    On a GPU it is one kernel, unless positions are relative. On CPUs torch's own takes up to twice
    as long for the few queries of a step, in bf16 or with 30 keys.

    query: (B, H, T, K).
    key: (B, H, S, K).
    value: (B, H, S, V).
    score_bias: broadcastable to (B, H, T, S), 0 = may attend, -inf = may not;
        None: everywhere. See `padding_bias`.
    relative: vectors added to keys and values at each distance, for one query at the last of S
        positions.
    Returns (B, H, T, V).
    """
    if query.is_cuda and relative is None:
        return F.scaled_dot_product_attention(query, key, value, score_bias)
    dtype, keys = query.dtype, key.shape[2]
    query, key, value = (x.to(batched_type(x)) for x in (query, key, value))
    scaled = query * query.shape[-1] ** -0.5
    if _is_small(query, key):
        scores: Tensor = (scaled * key).sum(dim=-1)[:, :, None]  # (B, H, 1, S)
    else:
        scores = scaled @ key.transpose(-1, -2)  # (B, H, T, S)
    if relative is not None:
        by_distance = from_last(relative[0], keys).to(scaled).t()  # (K, S): there is one query
        scores.view(-1, keys).addmm_(scaled.flatten(0, 2), by_distance)  # (B * H, S)
    if score_bias is not None:
        scores += score_bias
    weights = softmax(scores)  # (B, H, T, S)
    if _is_small(query, value):
        attended: Tensor = (weights.transpose(2, 3) * value).sum(dim=2, keepdim=True)
    else:
        attended = weights @ value  # (B, H, T, V)
    if relative is not None:
        vectors = from_last(relative[1], keys).to(weights)  # (S, V)
        attended.view(-1, value.shape[3]).addmm_(weights.flatten(0, 2), vectors)  # (B * H, V)
    return attended.to(dtype)  # (B, H, T, V)


def padding_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a mask is True, else -inf. GPUs add it to scores, but would convert a mask."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)


# Not cuDNN's, torch's first choice on some GPUs. It plans anew for each number of keys, which takes
# 0.4 seconds on a B200, and each step has another.
_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def fused_backends(device: torch.device) -> AbstractContextManager[None]:
    """Choose how a GPU computes `attend`, for as long as the context lasts."""
    return sdpa_kernel(_BACKENDS) if device.type == "cuda" else nullcontext()


def _is_small(query: Tensor, other: Tensor) -> bool:
    """Tell whether to multiply one query (B, H, 1, K) elementwise with keys or values."""
    is_small = query.shape[2] == 1 and math.prod(other.shape[2:]) < _SMALL_PRODUCT
    return is_small and other.device.type == "cpu"


class SelfAttention(nn.Module):
    """Attention of a sequence to itself. The three input projections are one product.

    As in the paper, projections are matrices without bias, unless `attention_bias` is set.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, self.num_heads = config.d_model, config.num_heads
        self.widths = [self.num_heads * head_width for head_width in config.head_widths]
        keys, values = self.widths
        self.qkv = nn.Parameter(input_projections(width, keys, keys, values))  # (2HK + HV, D)
        self.output = nn.Parameter(output_projection(width, values))  # (D, HV)
        self.qkv_bias = bias(config.attention_bias, 2 * keys + values)
        self.output_bias = bias(config.attention_bias, width)
        self.relative: RelativePositions | None = None
        if config.positions == "relative":
            self.relative = RelativePositions(config.max_relative_distance, config.head_widths)

    @property
    def relative_vectors(self) -> Relative | None:
        """The vectors added to keys and values at each distance, if any."""
        return None if self.relative is None else (self.relative.keys, self.relative.values)

    def project(self, x: Tensor, rotation: Tensor | None) -> Projected:
        """Return queries, keys and values of x (n, D), rotated by (n, K) if there is a rotation."""
        keys, values = self.widths
        projected = linear(x, self.qkv, self.qkv_bias)  # (n, 2HK + HV)
        if keys == values and rotation is None:
            return (projected.view(len(x), 3, self.num_heads, -1),)  # (n, 3, H, K)
        query_key, value = torch.split(projected, [2 * keys, values], dim=1)
        query_key = query_key.view(len(x), 2, self.num_heads, -1)  # (n, 2, H, K)
        if rotation is not None:
            query_key = rotated(query_key, rotation)
        return query_key, value.view(len(x), 1, self.num_heads, -1)  # and (n, 1, H, V)

    def forward(self, x: Tensor, sentences: Sentences, *, causal: bool = False) -> Tensor:
        """Attend within each sentence of x (n, D), only backwards if causal: (n, D)."""
        projected, relative = self.project(x, sentences.rotation), self.relative_vectors
        sentences.record(self, projected, sentences, causal=causal, relative=relative)
        attended = attend_packed(projected, sentences, sentences, causal=causal, relative=relative)
        return linear(attended.flatten(1), self.output, self.output_bias)  # (n, D)


class CrossAttention(nn.Module):
    """Attention of the decoder to the memory."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width, self.num_heads = config.d_model, config.num_heads
        self.widths = [self.num_heads * head_width for head_width in config.head_widths]
        keys, values = self.widths
        self.query = nn.Parameter(input_projections(width, keys))  # (HK, D)
        self.key_value = nn.Parameter(input_projections(width, keys, values))  # (HK + HV, D)
        self.output = nn.Parameter(output_projection(width, values))  # (D, HV)
        self.query_bias = bias(config.attention_bias, keys)
        self.key_value_bias = bias(config.attention_bias, keys + values)
        self.output_bias = bias(config.attention_bias, width)

    def project_query(self, x: Tensor) -> Tensor:
        """Return queries (n, HK) of x (n, D)."""
        return linear(x, self.query, self.query_bias)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys (B, H, S, K) and values (B, H, S, V) of memory (B, S, D), once each."""
        projected = linear(memory, self.key_value, self.key_value_bias)  # (B, S, HK + HV)
        key, value = (
            part.view(*memory.shape[:2], self.num_heads, -1).transpose(1, 2).contiguous()
            for part in torch.split(projected.to(batched_type(projected)), self.widths, dim=2)
        )  # contiguous, so that steps do not copy them
        return key, value

    def forward(
        self, x: Tensor, sentences: Sentences, memory: Tensor, memory_sentences: Sentences
    ) -> Tensor:
        """Attend from each sentence of x (n, D) to that of memory (m, D): (n, D)."""
        return self.attend(self.project(x, memory), sentences, memory_sentences)

    def attend(self, projected: Projected, queries: Sentences, keys: Sentences) -> Tensor:
        """Return the result of `forward` for what `project` returns."""
        queries.record(self, projected, keys)
        attended = attend_packed(projected, queries, keys)  # (n, H, V)
        return linear(attended.flatten(1), self.output, self.output_bias)  # (n, D)

    def project(self, x: Tensor, memory: Tensor) -> Projected:
        """Return queries of x (n, D), keys and values of the memory (m, D)."""
        query = self.project_query(x).view(len(x), 1, self.num_heads, -1)  # (n, 1, H, K)
        key_value = linear(memory, self.key_value, self.key_value_bias)  # (m, HK + HV)
        keys, values = self.widths
        if keys == values:
            return query, key_value.view(len(memory), 2, self.num_heads, -1)  # (m, 2, H, K)
        parts = torch.split(key_value, self.widths, dim=1)
        return query, *(part.view(len(memory), 1, self.num_heads, -1) for part in parts)


def attend_grouped(query: Tensor, key: Tensor, value: Tensor, score_bias: Tensor) -> Tensor:
    """Attend from the N = B * W hypotheses of B sentences to their sentence's memory.

    query: (N, H * K); key: (B, H, S, K); value: (B, H, S, V); score_bias: (B, S), 0 = a real token,
    -inf = padding.
    Returns (N, H * V).
    """
    sentences, heads, _, width = key.shape
    # The W hypotheses of a sentence are W queries to its memory.
    queries = query.view(sentences, -1, heads, width).transpose(1, 2)  # (B, H, W, K)
    attended = attend(queries, key, value, score_bias[:, None, None])  # (B, H, W, V)
    return attended.transpose(1, 2).reshape(len(query), -1)
