"""Embeddings, feed-forward layers, residual connections and dropout against their formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from reference import rms_norm as rms_norm_by_loops
from reference import swiglu as swiglu_by_loops
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models.layers import (
    FeedForward,
    Residual,
    SwiGLU,
    TokenEmbedding,
    add_dropped,
    dropout,
    final_norm,
    norm,
    seed_dropout,
)

CONFIG = TransformerConfig(d_model=6, dropout=0.0)


# ---------------------------------------------------------------------------- embeddings


def test_an_embedding_is_scaled_and_its_position_added() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(10, 16, dropout=0.5).eval()
    tokens, positions = torch.tensor([[3, 7, 3], [0, 1, 2]]), torch.randn(2, 3, 16)
    scaled = embedding.weight[tokens] * 4.0  # sqrt(16) = 4
    torch.testing.assert_close(embedding(tokens), scaled)
    torch.testing.assert_close(embedding(tokens, positions), scaled + positions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_embedding_with_its_position_has_the_type_of_the_weights(dtype: torch.dtype) -> None:
    embedding = TokenEmbedding(4, 8, dropout=0.0).to(dtype)
    assert embedding(torch.zeros(3, dtype=torch.int64), torch.ones(3, 8)).dtype == dtype


def test_embeddings_start_with_variance_one_over_d_model() -> None:
    torch.manual_seed(1)
    weight = TokenEmbedding(2_000, 64, dropout=0.0).weight
    # 128,000 draws: the standard error of the deviation is sigma / sqrt(2 * 128,000), 0.2 %.
    assert float(weight.detach().std()) == pytest.approx(1 / 8, rel=0.01)


def test_dropout_falls_on_the_sum_of_embedding_and_position() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(4, 64, dropout=0.5)
    tokens = torch.ones(1, 50, dtype=torch.int64)
    positions = torch.randn(1, 50, 64)
    plain, dropped = embedding.eval()(tokens, positions), embedding.train()(tokens, positions)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])


# -------------------------------------------------------------------------- feed-forward


def test_swiglu_is_the_loop_reference() -> None:
    torch.manual_seed(1)
    layer, x = SwiGLU(6, 10).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    gate, value = (part.detach().numpy() for part in layer.inner.weight.chunk(2))
    found = layer(x).detach().numpy()
    for index in np.ndindex(2, 3):
        outer = layer.outer.weight.detach().numpy()
        expected = swiglu_by_loops(x[index].numpy(), gate, value, outer)
        np.testing.assert_allclose(found[index], expected, atol=1e-12)


def test_relu_is_between_two_products_with_biases() -> None:
    torch.manual_seed(2)
    layer, x = FeedForward(6, 10).double(), torch.randn(5, 6, dtype=torch.float64)
    with torch.no_grad():
        for bias in (layer.inner.bias, layer.outer.bias):
            bias.normal_()
    hidden = F.linear(x, layer.inner.weight, layer.inner.bias).clamp(min=0)
    expected = F.linear(hidden, layer.outer.weight, layer.outer.bias)
    torch.testing.assert_close(layer(x), expected)


def test_swiglu_s_factors_start_within_the_xavier_bound_of_each() -> None:
    torch.manual_seed(3)
    layer, bound = SwiGLU(64, 128), math.sqrt(6 / (64 + 128))
    for factor in layer.inner.weight.detach().chunk(2):
        assert 0.99 * bound < float(factor.abs().max()) <= bound
    assert 0.98 * bound / 2 < float(layer.outer.weight.detach().abs().max()) <= bound / 2


# -------------------------------------------------------------------- norms and residuals


def around(residual: Residual, x: Tensor) -> Tensor:
    """Apply the residual connection around the sub-layer 2 x + 1."""
    return residual(x, lambda y: 2 * y + 1)  # type: ignore[no-any-return]


def test_post_norm_normalises_the_sum_and_pre_norm_the_input() -> None:
    torch.manual_seed(1)
    x = torch.randn(5, 6)
    torch.testing.assert_close(around(Residual(CONFIG), x), F.layer_norm(3 * x + 1, (6,)))
    found = around(Residual(replace(CONFIG, pre_norm=True)), x)
    torch.testing.assert_close(found, x + 2 * F.layer_norm(x, (6,)) + 1)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_falls_only_on_the_sub_layer_s_output(pre_norm: bool) -> None:
    torch.manual_seed(1)
    residual = Residual(replace(CONFIG, d_model=64, dropout=0.5, pre_norm=pre_norm))
    residual.norm = nn.Identity()  # type: ignore[assignment]
    x = torch.randn(50, 64)
    found = residual.train()(x, torch.ones_like)
    assert set((found - x).round(decimals=4).unique().tolist()) == {0.0, 2.0}


def test_rms_norm_is_the_loop_reference_and_torch_s_own() -> None:
    torch.manual_seed(2)
    module = norm(replace(CONFIG, norm="rms")).double()
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    with torch.no_grad():
        module.weight.normal_()
    x = torch.randn(5, 6, dtype=torch.float64)
    found = module(x).detach()
    for row, expected in zip(found, x, strict=True):
        by_loops = rms_norm_by_loops(expected.numpy(), module.weight.detach().numpy(), 1e-6)
        np.testing.assert_allclose(row.numpy(), by_loops, atol=1e-12)
    torch.testing.assert_close(found, F.rms_norm(x, (6,), module.weight, 1e-6).detach())


def test_only_a_pre_norm_stack_ends_in_a_norm() -> None:
    assert isinstance(final_norm(replace(CONFIG, pre_norm=True)), nn.LayerNorm)
    assert isinstance(final_norm(replace(CONFIG, pre_norm=True, norm="rms")), nn.RMSNorm)
    assert isinstance(final_norm(CONFIG), nn.Identity)


# ------------------------------------------------------------------------------- dropout

N = 400_003  # not a multiple of the four elements that share a draw


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_rate_mean_and_variance_are_those_of_dropout(p: float) -> None:
    seed_dropout(1)
    x = dropout(torch.ones(N, dtype=torch.float64), p, True)
    # An element is 1 / (1 - p) with probability 1 - p, else 0: mean 1, variance p / (1 - p).
    rate_error = math.sqrt(p * (1 - p) / N)
    assert float((x == 0).double().mean()) == pytest.approx(p, abs=4 * rate_error)
    assert float(x.mean()) == pytest.approx(1.0, abs=4 * math.sqrt(p / (1 - p) / N))
    assert float(x.var()) == pytest.approx(p / (1 - p), rel=0.02)
    kept = x[x != 0]
    assert (
        float(kept.min()) == float(kept.max()) == pytest.approx(1 / (1 - p), rel=2**-14 / (1 - p))
    )


def test_elements_of_a_mask_and_masks_of_a_pass_are_uncorrelated() -> None:
    seed_dropout(1)
    masks = torch.stack([dropout(torch.ones(N), 0.5, True) for _ in range(8)]).double()
    between = torch.corrcoef(masks) - torch.eye(8, dtype=torch.float64)
    assert between.abs().max() < 5 / math.sqrt(N)
    of_a_draw = masks[0, : N // 4 * 4].view(-1, 4)
    within = torch.corrcoef(of_a_draw.T) - torch.eye(4, dtype=torch.float64)
    assert within.abs().max() < 4 / math.sqrt(N / 4)


def test_a_seed_fixes_the_masks() -> None:
    x = torch.ones(3, 5, 7)
    seed_dropout(8)
    first, second = dropout(x, 0.3, True), dropout(x, 0.3, True)
    assert not torch.equal(first, second)
    seed_dropout(8)
    assert torch.equal(dropout(x, 0.3, True), first)
    seed_dropout(9)
    assert not torch.equal(dropout(x, 0.3, True), first)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (0.0, False)])
def test_without_rate_or_training_nothing_changes_and_nothing_is_drawn(
    p: float, training: bool
) -> None:
    x = torch.randn(5, 3)
    before = torch.get_rng_state()
    assert torch.equal(dropout(x, p, training), x)
    assert torch.equal(add_dropped(x, x, p, training), x + x)
    assert torch.equal(torch.get_rng_state(), before)


def test_only_kept_elements_get_a_gradient() -> None:
    seed_dropout(1)
    x = torch.randn(40, 3, requires_grad=True)
    y = dropout(x, 0.25, True)
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    kept = y != 0
    assert 0 < kept.sum() < x.numel()
    torch.testing.assert_close(x.grad, kept / 0.75)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dropout_keeps_shape_and_type_of_any_layout(dtype: torch.dtype) -> None:
    seed_dropout(1)
    x = torch.ones(6, 4, 5, dtype=dtype).transpose(0, 2)
    y = dropout(x, 0.5, True)
    assert (y.shape, y.dtype) == (x.shape, dtype)
    assert set(y.flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("p", [1e-6, 1 - 1e-6])
def test_extreme_rates_are_rounded_and_stay_finite(p: float) -> None:
    seed_dropout(1)
    assert dropout(torch.ones(1_000), p, True).isfinite().all()
    assert dropout(torch.empty(0), p, True).shape == (0,)


def test_add_dropped_and_its_gradients_are_those_of_the_sum() -> None:
    x, output = (torch.randn(40, 6, requires_grad=True) for _ in range(2))
    weight = torch.randn(40, 6)
    seed_dropout(4)
    expected = x + dropout(output, 0.25, True)
    seed_dropout(4)
    found = add_dropped(x, output, 0.25, True)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad((found * weight).sum(), (x, output)),
        torch.autograd.grad((expected * weight).sum(), (x, output)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
