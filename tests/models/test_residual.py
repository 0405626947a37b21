"""Residual connections with a norm behind the sum, or before the sub-layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from reference import rms_norm as rms_norm_by_loops
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models.layers import Residual, final_norm, norm

CONFIG = TransformerConfig(d_model=6, dropout=0.0)


def put_to(residual: Residual, x: Tensor) -> Tensor:
    """The residual connection around the sub-layer 2 x + 1."""
    return residual(x, 2 * residual.prepared(x) + 1)  # type: ignore[no-any-return]


def test_post_norm_normalises_the_sum() -> None:
    torch.manual_seed(1)
    x = torch.randn(5, 6)
    torch.testing.assert_close(put_to(Residual(CONFIG), x), F.layer_norm(3 * x + 1, (6,)))


def test_pre_norm_normalises_what_the_sub_layer_gets() -> None:
    torch.manual_seed(1)
    x = torch.randn(5, 6)
    found = put_to(Residual(replace(CONFIG, pre_norm=True)), x)
    torch.testing.assert_close(found, x + 2 * F.layer_norm(x, (6,)) + 1)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_falls_on_the_sub_layer_s_output_alone(pre_norm: bool) -> None:
    torch.manual_seed(1)
    residual = Residual(replace(CONFIG, d_model=64, dropout=0.5, pre_norm=pre_norm))
    residual.norm = nn.Identity()  # type: ignore[assignment]
    x = torch.randn(50, 64)
    found = residual.train()(x, torch.ones_like(x))
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


def test_rms_norm_does_not_centre() -> None:
    x = torch.full((1, 6), 3.0)
    torch.testing.assert_close(norm(replace(CONFIG, norm="rms"))(x), torch.ones(1, 6))
    torch.testing.assert_close(norm(CONFIG)(x), torch.zeros(1, 6))


def test_a_pre_norm_stack_alone_is_closed_by_a_norm() -> None:
    assert isinstance(final_norm(replace(CONFIG, pre_norm=True)), nn.LayerNorm)
    assert isinstance(final_norm(replace(CONFIG, pre_norm=True, norm="rms")), nn.RMSNorm)
    assert isinstance(final_norm(CONFIG), nn.Identity)
