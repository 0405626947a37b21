"""Attention is equation 1 of the paper: against loops, and against torch's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import Array
from reference import attention as attention_by_loops
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models.attention import CrossAttention, SelfAttention, attend, attend_grouped

B, H, T, S, K = 2, 3, 4, 5, 6
D = H * K
CONFIG = TransformerConfig(d_model=D, num_heads=H)
WIDER = TransformerConfig(d_model=64, num_heads=4)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def in_heads(x: torch.Tensor) -> Array:
    """(B, T, D) -> (B, H, T, K): a head is K neighbouring columns."""
    return x.numpy().reshape(B, -1, H, K).swapaxes(1, 2)


def out_of_heads(x: Array) -> torch.Tensor:
    """(B, H, T, K) -> (B, T, D)."""
    return torch.from_numpy(x.swapaxes(1, 2).reshape(B, -1, D).copy())


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return normal(B, H, T, K), normal(B, H, S, K), normal(B, H, S, K)


def some_mask() -> torch.Tensor:
    """(B, 1, T, S), each query with a key at least."""
    mask = torch.rand(B, 1, T, S, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 0] = True
    assert not mask.all()
    return mask


@pytest.mark.parametrize("masked", [True, False])
def test_attend_is_the_loop_reference_and_torch_s_own(
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], masked: bool
) -> None:
    mask = some_mask() if masked else None
    found = attend(*inputs, mask)
    everywhere = np.ones((B, H, T, S), dtype=bool)
    allowed = mask.numpy() & everywhere if mask is not None else everywhere
    query, key, value = (part.numpy() for part in inputs)
    by_loops = attention_by_loops(query, key, value, allowed)
    np.testing.assert_allclose(found.numpy(), by_loops, atol=1e-12)
    by_torch = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    torch.testing.assert_close(found, by_torch, atol=1e-12, rtol=0)


def test_what_is_masked_moves_nothing_not_even_a_huge_value(
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    query, key, value = inputs
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[0, ..., 3:] = False
    before = attend(query, key, value, mask)
    key, value = key.clone(), value.clone()
    key[0, :, 3:], value[0, :, 3:] = 1e4, -1e30
    assert torch.equal(attend(query, key, value, mask), before)
    key[0, :, 2] += 1.0
    assert not torch.equal(attend(query, key, value, mask)[0], before[0])


def test_one_allowed_key_is_copied() -> None:
    torch.manual_seed(1)
    value = normal(1, 1, 3, K)
    mask = torch.tensor([False, True, False])
    found = attend(normal(1, 1, 2, K), normal(1, 1, 3, K), value, mask)
    torch.testing.assert_close(found, value[:, :, 1:2].expand(1, 1, 2, K))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_knows_minus_infinity(
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], dtype: torch.dtype
) -> None:
    # A mask of -1e9 would overflow fp16.
    query, key, value = (part.to(dtype) for part in inputs)
    found = attend(query, key, value, some_mask())
    torch.testing.assert_close(found.double(), attend(*inputs, some_mask()), atol=0.05, rtol=0)


def test_a_step_of_cross_attention_is_projections_around_the_loop_reference() -> None:
    torch.manual_seed(3)
    module = CrossAttention(CONFIG).double()
    x, memory = normal(B, T, D), normal(B, S, D)  # T hypotheses of each sentence
    mask = torch.tensor([[True] * S, [True] * (S - 2) + [False] * 2])  # (B, S)
    query = in_heads(x @ module.query.detach().T)
    key, value = (in_heads(memory @ w.T) for w in module.key_value.detach().chunk(2))
    expanded = np.broadcast_to(mask[:, None, None].numpy(), (B, H, T, S))
    expected = out_of_heads(attention_by_loops(query, key, value, expanded))  # (B, T, D)
    rows = (x @ module.query.detach().T).flatten(0, 1)  # (B * T, D)
    keys, values = module.project_memory(memory)
    found = attend_grouped(rows, keys.detach(), values.detach(), mask)
    torch.testing.assert_close(found.view(B, T, D), expected)


def test_queries_keys_and_values_start_within_the_xavier_bound_of_all_three_together() -> None:
    # Xavier's uniform bound is sqrt(6 / (fan-in + fan-out)): here for a 3D x D matrix.
    torch.manual_seed(4)
    bound = math.sqrt(6 / (64 + 3 * 64))
    own, cross = SelfAttention(WIDER), CrossAttention(WIDER)
    for weight in (own.qkv, cross.query, cross.key_value):
        assert bound * 0.99 < weight.abs().max() <= bound


def test_the_output_projection_starts_within_half_of_its_xavier_bound() -> None:
    torch.manual_seed(4)
    bound = math.sqrt(6 / (64 + 64)) / 2
    for module in (SelfAttention(WIDER), CrossAttention(WIDER)):
        assert bound * 0.99 < module.output.abs().max() <= bound


def test_attention_projections_have_no_bias() -> None:
    for module in (SelfAttention(CONFIG), CrossAttention(CONFIG)):
        assert all(parameter.dim() == 2 for parameter in module.parameters())
