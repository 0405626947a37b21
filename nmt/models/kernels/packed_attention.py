"""Attention among packed sentences for training (Vaswani et al. 2017, section 3.2).

On GPUs since Ampere, in half precision, flash attention (Dao 2023) takes packed sentences. In other
cases they are padded, which costs next to nothing, because heads have to be copied anyway.

Legend: B sentences, L tokens of the longest (T of queries, S of keys), H heads, K and V the widths
of a head's keys and values, n and m tokens of packed sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from nmt.data.batches import Packed
from nmt.models.kernels.padded_attention import (
    AttentionLayout,
    attend_padded,
    padded_weights,
    saves_work,
)
from nmt.models.kernels.padded_layout import PaddedLayout, Projected, in_heads
from nmt.models.positions import Relative


@dataclass(frozen=True)
class Sentences:
    """Packed sentences with their layout for attention; made once per forward pass."""

    packed: Packed
    layout: PaddedLayout | None
    """None if attention takes packed sentences."""
    rotation: Tensor | None = None
    """(n, K) rotates the queries and keys of self-attention (see `rotated`); None: no rotation."""

    @classmethod
    def of(cls, packed: Packed, *, as_packed: bool, rotation: Tensor | None = None) -> Sentences:
        """Lay out sentences, unless attention takes them packed."""
        return cls(packed, None if as_packed else PaddedLayout.of(packed), rotation)


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
    if own.layout is None or others.layout is None:
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
        layout = AttentionLayout.of_blocks(own.packed, causal=causal, window=window)
    else:
        layout = AttentionLayout.of_sentences(
            own.layout, others.layout, causal=causal, window=window
        )
    return attend_padded(projected, layout, relative)


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
    layouts = (
        own.layout or PaddedLayout.of(own.packed),
        others.layout or PaddedLayout.of(others.packed),
    )
    wide = torch.promote_types(projected[0].dtype, torch.float32)
    parts = in_heads([x.to(wide) for x in projected], *layouts)
    query, key = islice(parts, 2)  # (B * H, T, K), (B * H, S, K)
    layout = AttentionLayout.of_sentences(*layouts, causal=causal, window=window)
    for_keys = None if relative is None else relative[0].to(wide)
    weights = padded_weights(query, key, layout, for_keys)
    return weights.view(len(layout.own.tokens), -1, *weights.shape[1:])
