"""Products of a recurrence's steps, and gradients that are those of plain products."""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.models.lstm import StepProduct

STEPS, ROWS, IN, OUT = 4, 3, 5, 5


def numbers() -> tuple[Tensor, Tensor, Tensor]:
    """A weight, addends and what the first step reads; the first two want a gradient."""
    torch.manual_seed(1)
    weight = torch.randn(OUT, IN, dtype=torch.float64, requires_grad=True)
    addends = torch.randn(STEPS, ROWS, OUT, dtype=torch.float64, requires_grad=True)
    return weight, addends, torch.randn(ROWS, IN, dtype=torch.float64)


def by_plain_products(weight: Tensor, addends: Tensor, x: Tensor) -> Tensor:
    for addend in addends:
        x = torch.tanh(x @ weight.T + addend)
    return x


def by_steps(weight: Tensor, addends: Tensor, x: Tensor) -> Tensor:
    product = StepProduct(weight, addends)
    for _ in range(STEPS):
        x = torch.tanh(product(x))
    return x


def test_a_recurrence_and_its_gradients_are_those_of_plain_products() -> None:
    results = []
    for way in (by_plain_products, by_steps):
        weight, addends, x = numbers()
        last = way(weight, addends, x)
        torch.autograd.backward(last.square().sum())
        results.append((last.detach(), weight.grad, addends.grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_addends_may_be_one_bias_for_all_steps() -> None:
    weight, _, x = numbers()
    bias = torch.randn(OUT, dtype=torch.float64, requires_grad=True)
    torch.autograd.backward(by_steps(weight, bias.expand(STEPS, ROWS, -1), x).sum())
    found = bias.grad
    bias.grad = None
    torch.autograd.backward(by_plain_products(weight, bias.expand(STEPS, ROWS, -1), x).sum())
    torch.testing.assert_close(found, bias.grad, atol=1e-12, rtol=0)


def test_a_frozen_weight_gets_no_gradient_and_others_do() -> None:
    weight, addends, x = numbers()
    weight.requires_grad_(False)
    torch.autograd.backward(by_steps(weight, addends, x).sum())
    assert weight.grad is None
    assert addends.grad is not None


def test_the_weight_s_gradient_is_one_product() -> None:
    weight, addends, x = numbers()
    last = by_steps(weight, addends, x)
    with torch.profiler.profile() as profile:
        torch.autograd.backward(last.sum())
    products = [event for event in profile.events() or [] if event.name == "aten::mm"]
    assert len(products) == STEPS - 1 + 1  # what all steps but the first read, and the weight
