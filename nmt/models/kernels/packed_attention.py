"""Attention among packed sentences (Vaswani et al. 2017, section 3.2), as training needs it.

On GPUs since Ampere, in half precision, flash attention (Dao 2023) takes sentences as they are
packed. Elsewhere they are laid out in tables, which costs next to nothing: heads have to be copied
apart in any case.

Legend: B sentences, L tokens of the longest (T of queries, S of keys), H heads, K and V the widths
of a head's keys and of its values, n and m tokens of packed sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from nmt.data.batches import Packed
from nmt.models.kernels.padded_attention import Layout, attend_padded, padded_weights, saves_work
from nmt.models.kernels.padded_layout import Projected, Table, in_heads
from nmt.models.positions import Relative


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
        others: the sentences of the keys and values, as many.
        causal: whether a token attends to none behind it.
        window: to what distance a token attends to others of its own sentence; 0: to any.
        relative: what is added to keys and values at each distance; not where attention takes
            sentences as they are packed.

    Returns:
        (n, H, V).
    """
    if own.table is None or others.table is None:
        assert relative is None
        query, key, value = (part for x in projected for part in x.unbind(1))  # (n or m, H, K)
        # Here, because it takes longer to import than all of torch, and CPUs have no use for it.
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
        layout = Layout.of_blocks(own.packed, causal=causal, window=window)
    else:
        layout = Layout.of_sentences(own.table, others.table, causal=causal, window=window)
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
    """Return the weights by which `attend_packed` sums values, without a gradient.

    Args:
        projected, own, others, causal, window, relative: those of `attend_packed`.

    Returns:
        (B, H, T, S) in fp32 at least, 0 at padding of either side.
    """
    tables = own.table or Table.of(own.packed), others.table or Table.of(others.packed)
    wide = torch.promote_types(projected[0].dtype, torch.float32)
    parts = in_heads([x.to(wide) for x in projected], *tables)
    query, key = islice(parts, 2)  # (B * H, T, K), (B * H, S, K)
    layout = Layout.of_sentences(*tables, causal=causal, window=window)
    for_keys = None if relative is None else relative[0].to(wide)
    weights = padded_weights(query, key, layout, for_keys)
    return weights.view(len(layout.own.tokens), -1, *weights.shape[1:])
