"""The feed-forward sub-layers against their formulas, one number at a time."""

from __future__ import annotations

import math

import numpy as np
import torch
from reference import swiglu as swiglu_by_loops
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models.layers import FeedForward, SwiGLU, feed_forward

CONFIG = TransformerConfig(d_model=6, d_ff=10)


def test_swiglu_is_the_loop_reference() -> None:
    torch.manual_seed(1)
    layer, x = SwiGLU(6, 10).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    gate, value = (part.detach().numpy() for part in layer.inner.weight.chunk(2))
    found = layer(x).detach().numpy()
    for index in np.ndindex(2, 3):
        outer = layer.outer.weight.detach().numpy()
        expected = swiglu_by_loops(x[index].numpy(), gate, value, outer)
        np.testing.assert_allclose(found[index], expected, atol=1e-12)


def test_relu_stands_between_two_products_with_biases() -> None:
    torch.manual_seed(2)
    layer, x = FeedForward(6, 10).double(), torch.randn(5, 6, dtype=torch.float64)
    with torch.no_grad():
        for bias in (layer.inner.bias, layer.outer.bias):
            bias.normal_()
    hidden = F.linear(x, layer.inner.weight, layer.inner.bias).clamp(min=0)
    expected = F.linear(hidden, layer.outer.weight, layer.outer.bias)
    torch.testing.assert_close(layer(x), expected)


def test_d_ff_is_the_width_of_each_of_swiglu_s_factors_which_have_no_biases() -> None:
    shapes = {name: tuple(p.shape) for name, p in SwiGLU(6, 10).named_parameters()}
    assert shapes == {"inner.weight": (20, 6), "outer.weight": (6, 10)}


def test_swiglu_s_factors_start_within_the_xavier_bound_of_each() -> None:
    torch.manual_seed(3)
    layer, bound = SwiGLU(64, 128), math.sqrt(6 / (64 + 128))
    for factor in layer.inner.weight.detach().chunk(2):
        assert 0.99 * bound < float(factor.abs().max()) <= bound
    assert 0.98 * bound / 2 < float(layer.outer.weight.detach().abs().max()) <= bound / 2


def test_the_configuration_names_the_sub_layer() -> None:
    assert isinstance(feed_forward(CONFIG), FeedForward)
    gated = TransformerConfig(d_model=6, d_ff=10, feed_forward="swiglu")
    assert isinstance(feed_forward(gated), SwiGLU)
