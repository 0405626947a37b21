"""The softmax of attention scores, and its gradient, are torch's at every length of a row."""

import math

import pytest
import torch

from nmt.models.kernels.softmax import softmax, softmax_gradient


@pytest.mark.parametrize("keys", [1, 7, 8, 15, 16, 17, 33])  # registers hold 8 or 16 numbers
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_softmax_and_its_gradient(dtype: torch.dtype, keys: int) -> None:
    generator = torch.Generator().manual_seed(keys)
    scores, gradient = torch.randn(2, 3, 5, keys, generator=generator).mul_(20).to(dtype)
    scores[0, 0, keys // 2 + 1 :] = -math.inf  # hidden
    exact = scores.double().requires_grad_()
    expected = exact.softmax(dim=-1)
    expected.backward(gradient.double())

    weights = softmax(scores)

    assert weights.dtype == dtype
    torch.testing.assert_close(weights, expected.to(dtype))
    of_scores = softmax_gradient(gradient, expected.detach().to(dtype))
    assert exact.grad is not None
    # The weights' rounding is 2^-9 of them in bf16, and gradients are up to 60.
    tolerance = 1e-5 if dtype == torch.float32 else 0.3
    torch.testing.assert_close(of_scores, exact.grad.to(dtype), atol=tolerance, rtol=1e-2)


def test_large_scores_do_not_overflow() -> None:
    weights = softmax(torch.tensor([[1000.0, 999.0, -math.inf]]))
    torch.testing.assert_close(weights[0, :2], torch.tensor([1, math.exp(-1)]) / (1 + math.exp(-1)))
