"""Dropout: where it falls, its statistics, and its gradients."""

import math

import pytest
import torch
from torch import nn

from nmt.config.model_config import TransformerConfig
from nmt.models.layers import Residual, TokenEmbedding, add_dropped, dropout, seed_dropout


def test_dropout_falls_on_the_sum_of_embedding_and_position() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(4, 64, dropout=0.5)
    tokens, positions = torch.ones(50, dtype=torch.int64), torch.randn(50, 64)
    plain, dropped = embedding.eval()(tokens, positions), embedding.train()(tokens, positions)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    assert torch.equal(dropped[kept], 2 * plain[kept])


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_falls_only_on_the_sub_layer_s_output(pre_norm: bool) -> None:
    torch.manual_seed(1)
    residual = Residual(TransformerConfig(d_model=64, dropout=0.5, pre_norm=pre_norm))
    residual.norm = nn.Identity()  # type: ignore[assignment]
    x = torch.randn(50, 64)
    found = residual.train()(x, torch.ones_like)
    assert set((found - x).round(decimals=4).unique().tolist()) == {0.0, 2.0}


N = 400_003  # not a multiple of the four elements that share a draw


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_rate_mean_and_variance_are_those_of_dropout(p: float) -> None:
    seed_dropout(1)
    x = dropout(torch.ones(N, dtype=torch.float64), p, True)
    # An element is 1 / (1 - p) with probability 1 - p, else 0: mean 1, variance p / (1 - p).
    assert float((x == 0).double().mean()) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / N))
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


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (0.0, False)])
def test_without_rate_or_training_nothing_changes_or_is_drawn(p: float, training: bool) -> None:
    x = torch.randn(5, 3)
    before = torch.get_rng_state()
    assert torch.equal(dropout(x, p, training), x)
    assert torch.equal(add_dropped(x, x, p, training), x + x)
    assert torch.equal(torch.get_rng_state(), before)


def test_add_dropped_and_its_gradients_are_those_of_the_sum() -> None:
    x, output = (torch.randn(40, 6, requires_grad=True) for _ in range(2))
    weight = torch.randn(40, 6)
    seed_dropout(4)
    mask = dropout(torch.ones(40, 6), 0.25, True)
    seed_dropout(4)
    found = add_dropped(x, output, 0.25, True)
    torch.testing.assert_close(found, x + output * mask)
    gradients = torch.autograd.grad((found * weight).sum(), (x, output))
    torch.testing.assert_close(gradients, (weight, weight * mask))
