"""Dropout by 16-bit draws has the rate, the mean and the gradient that dropout has."""

from __future__ import annotations

import math

import pytest
import torch

from nmt.models.kernels.dropout import add_dropped, dropout, seed_dropout

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


def test_the_four_elements_of_a_draw_are_independent() -> None:
    seed_dropout(1)
    dropped = (dropout(torch.ones(N), 0.5, True) == 0)[: N // 4 * 4].view(-1, 4).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(4, dtype=torch.float64)
    assert correlations.abs().max() < 4 / math.sqrt(N / 4)


def test_masks_of_one_pass_are_nearly_uncorrelated() -> None:
    seed_dropout(1)
    masks = torch.stack([dropout(torch.ones(N), 0.5, True) for _ in range(8)]).double()
    correlations = torch.corrcoef(masks) - torch.eye(8, dtype=torch.float64)
    assert correlations.abs().max() < 5 / math.sqrt(N)


def test_neighbours_and_repetitions_differ() -> None:
    seed_dropout(1)
    x = torch.ones(1_000)
    assert not torch.equal(dropout(x, 0.5, True), dropout(x, 0.5, True))


def test_a_seed_fixes_what_is_dropped() -> None:
    x = torch.ones(3, 5, 7)
    seed_dropout(8)
    first = dropout(x, 0.3, True)
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
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_flow_through_what_was_kept_alone() -> None:
    seed_dropout(1)
    x = torch.randn(40, 3, requires_grad=True)
    y = dropout(x, 0.25, True)
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    kept = y != 0
    assert 0 < kept.sum() < x.numel()
    torch.testing.assert_close(x.grad, kept / 0.75)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_shape_and_type_are_kept_for_any_layout(dtype: torch.dtype) -> None:
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


def test_a_residual_gets_the_dropped_output_and_passes_gradients_to_both() -> None:
    x, output = (torch.randn(40, 6, requires_grad=True) for _ in range(2))
    seed_dropout(4)
    expected = x + dropout(output, 0.25, True)
    seed_dropout(4)
    found = add_dropped(x, output, 0.25, True)
    torch.testing.assert_close(found, expected)
    weight = torch.randn(40, 6)
    for one, other in zip(
        torch.autograd.grad((found * weight).sum(), (x, output)),
        torch.autograd.grad((expected * weight).sum(), (x, output)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    assert torch.equal(add_dropped(x, output, 0.25, False), x + output)
