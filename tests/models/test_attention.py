"""Attention is equation 1 of the paper: against loops, and against torch's own."""

import numpy as np
import pytest
import torch
from reference import attention as attention_by_loops
from torch.nn import functional as F

from nmt.models.attention import attend, padding_bias

B, H, T, S, K, V = 2, 3, 4, 5, 6, 7


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.bfloat16, 0.1), (torch.float16, 0.02)],  # no room for -1e9
    ids=str,
)
@pytest.mark.parametrize("is_masked", [True, False])
@pytest.mark.parametrize(("queries", "distances"), [(1, 0), (T, 0), (1, 2 * 2 + 1), (1, 2 * S + 1)])
def test_attend_is_the_loop_reference_and_torch_s_own(
    queries: int, distances: int, is_masked: bool, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(1)
    query, key, value = normal(B, H, queries, K), normal(B, H, S, K), normal(B, H, S, V)
    relative = [normal(distances, K), normal(distances, V)] if distances else []
    mask = torch.rand(B, 1, queries, S) < 0.6
    mask[..., 0] = True  # each query has a key at least
    mask |= not is_masked
    q, k, v, m = (part.numpy() for part in (query, key, value, mask))
    expected, _ = attention_by_loops(q, k, v, m, [part.numpy() for part in relative])
    inputs = (query.to(dtype), key.to(dtype), value.to(dtype))
    vectors = (relative[0].to(dtype), relative[1].to(dtype)) if relative else None
    found = attend(*inputs, padding_bias(mask, dtype) if is_masked else None, vectors)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.double().numpy(), expected, atol=tolerance)
    if not relative:
        by_torch = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
        torch.testing.assert_close(found, by_torch, atol=tolerance, rtol=0)
