"""RMSNorm on CPUs is torch's own, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nmt.models.layers import RMSNorm


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 2e-2)]
)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])  # the first is below the root of epsilon
def test_values_and_gradients_are_those_of_torch(
    dtype: torch.dtype, tolerance: float, scale: float
) -> None:
    random = torch.Generator().manual_seed(4)
    x = (scale * torch.randn(7, 3, 64, generator=random)).to(dtype)
    weighting, gain = (torch.randn(*size, generator=random) for size in (x.shape, (64,)))

    def results(norm: nn.RMSNorm, precise: torch.dtype) -> list[Tensor]:
        norm = norm.to(precise)
        norm.weight.data.copy_(gain.to(dtype))
        leaf = x.detach().to(precise, copy=True).requires_grad_()
        normed: Tensor = norm(leaf)
        torch.autograd.backward((normed * weighting.to(dtype).to(precise)).sum())
        assert leaf.grad is not None and norm.weight.grad is not None
        return [normed.detach(), leaf.grad * scale, norm.weight.grad]

    found, expected = (
        results(RMSNorm(64, 1e-6), dtype),
        results(nn.RMSNorm(64, 1e-6), torch.float64),
    )
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        error = (one.double() - other).abs().max() / other.abs().max()
        assert error < tolerance
