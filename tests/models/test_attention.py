"""Attention is equation 1 of the paper: against loops, and against torch's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import attention as attention_by_loops
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models.attention import CrossAttention, SelfAttention, attend

B, H, T, S, K = 2, 3, 4, 5, 6
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.fixture
def inputs() -> Inputs:
    torch.manual_seed(1)
    return normal(B, H, T, K), normal(B, H, S, K), normal(B, H, S, K)


def some_mask() -> torch.Tensor:
    """(B, 1, T, S), each query with a key at least."""
    mask = torch.rand(B, 1, T, S, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 0] = True
    assert not mask.all()
    return mask


@pytest.mark.parametrize("masked", [True, False])
def test_attend_is_the_loop_reference_and_torch_s_own(inputs: Inputs, masked: bool) -> None:
    mask = some_mask() if masked else None
    found = attend(*inputs, mask)
    everywhere = np.ones((B, H, T, S), dtype=bool)
    allowed = mask.numpy() & everywhere if mask is not None else everywhere
    query, key, value = (part.numpy() for part in inputs)
    by_loops = attention_by_loops(query, key, value, allowed)
    np.testing.assert_allclose(found.numpy(), by_loops, atol=1e-12)
    by_torch = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    torch.testing.assert_close(found, by_torch, atol=1e-12, rtol=0)


def test_masked_keys_change_nothing_not_even_huge_ones(inputs: Inputs) -> None:
    query, key, value = inputs
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[0, ..., 3:] = False
    before = attend(query, key, value, mask)
    key, value = key.clone(), value.clone()
    key[0, :, 3:], value[0, :, 3:] = 1e4, -1e30
    assert torch.equal(attend(query, key, value, mask), before)
    key[0, :, 2] += 1.0
    assert not torch.equal(attend(query, key, value, mask)[0], before[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_minus_infinity(inputs: Inputs, dtype: torch.dtype) -> None:
    # A mask of -1e9 would overflow fp16.
    query, key, value = (part.to(dtype) for part in inputs)
    found = attend(query, key, value, some_mask())
    torch.testing.assert_close(found.double(), attend(*inputs, some_mask()), atol=0.05, rtol=0)


def test_projections_start_within_their_xavier_bounds() -> None:
    # Xavier's uniform bound is sqrt(6 / (fan-in + fan-out)). Queries, keys and values count as one
    # 3D x D matrix. The output starts at half of its bound.
    torch.manual_seed(4)
    config = TransformerConfig(d_model=64, num_heads=4)
    inputs, output = math.sqrt(6 / (64 + 3 * 64)), math.sqrt(6 / (64 + 64)) / 2
    own, cross = SelfAttention(config), CrossAttention(config)
    for bound, weights in (
        (inputs, (own.qkv, cross.query, cross.key_value)),
        (output, (own.output, cross.output)),
    ):
        for weight in weights:
            assert bound * 0.99 < weight.abs().max() <= bound
