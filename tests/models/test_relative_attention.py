"""Relative positions are those of Shaw et al. (2018), though no pair has vectors of its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import relative_attention as attention_by_loops
from torch import Tensor
from torch.autograd import gradcheck

from nmt.models.attention import attend
from nmt.models.kernels.packed_attention import Sentences, attend_packed, attention_weights
from nmt.models.positions import spread_by_distance, sum_by_distance

H, K, V = 2, 3, 4
PACKED = batch_of([[5] * n for n in (6, 0, 2)], [[6]] * 3).src
"""Sentences of 7, 1 and 3 tokens."""
SENTENCES = Sentences.of(PACKED, as_packed=False)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def projected_and_relative(farthest: int, key_width: int = K, value_width: int = V) -> list[Tensor]:
    """Queries and keys (n, 2, H, K), values (n, 1, H, V), and what is added at each distance."""
    tokens, distances = len(PACKED.tokens), 2 * farthest + 1
    query_key, values = normal(tokens, 2, H, key_width), normal(tokens, 1, H, value_width)
    return [query_key, values, normal(distances, key_width), normal(distances, value_width)]


def attended(
    query_key: Tensor,
    values: Tensor,
    for_keys: Tensor,
    for_values: Tensor,
    *,
    causal: bool,
    window: int,
) -> Tensor:
    return attend_packed(
        [query_key, values],
        SENTENCES,
        SENTENCES,
        causal=causal,
        window=window,
        relative=(for_keys, for_values),
    )


def by_loops(
    query_key: Tensor,
    values: Tensor,
    for_keys: Tensor,
    for_values: Tensor,
    *,
    causal: bool,
    window: int,
) -> Tensor:
    """Sentence by sentence: (n, H, V)."""
    found = []
    for a, b in pairwise(PACKED.starts.tolist()):
        parts = (*query_key[a:b].unbind(1), values[a:b, 0])  # each (length, H, width)
        query, key, value = (x.transpose(0, 1)[None].numpy() for x in parts)
        apart = np.arange(b - a) - np.arange(b - a)[:, None]
        seen = (abs(apart) <= window) if window else np.ones(apart.shape, dtype=bool)
        if causal:
            seen &= apart <= 0
        mask = np.broadcast_to(seen, (1, H, *seen.shape))
        one = attention_by_loops(query, key, value, mask, for_keys.numpy(), for_values.numpy())
        found.append(torch.from_numpy(one[0]).transpose(0, 1))
    return torch.cat(found)


def test_distances_are_clipped_at_the_farthest() -> None:
    by_distance = torch.tensor([[-2, -1, 0, 1, 2]]).expand(4, 5)  # k = 2
    assert spread_by_distance(by_distance, 4).tolist() == [
        [0, 1, 2, 2],
        [-1, 0, 1, 2],
        [-2, -1, 0, 1],
        [-2, -2, -1, 0],
    ]
    assert spread_by_distance(by_distance[:2], 4, first=2).tolist() == [
        [-2, -1, 0, 1],
        [-2, -2, -1, 0],
    ]


@pytest.mark.parametrize("first", [0, 2, 6])
@pytest.mark.parametrize("farthest", [1, 2, 9])
@pytest.mark.parametrize("queries", [1, 5])
def test_sums_by_distance_are_those_of_loops(queries: int, farthest: int, first: int) -> None:
    torch.manual_seed(1)
    x = normal(2, queries, 7)
    expected = torch.zeros(2, queries, 2 * farthest + 1, dtype=torch.float64)
    for row, t, s in np.ndindex(*x.shape):
        apart = max(-farthest, min(farthest, s - t - first))
        expected[row, t, apart + farthest] += x[row, t, s]
    torch.testing.assert_close(sum_by_distance(x, farthest, first), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("window", [0, 1, 2])  # everywhere; in blocks
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("farthest", [1, 3, 8])
def test_attention_is_that_of_loops(farthest: int, causal: bool, window: int) -> None:
    torch.manual_seed(2)
    inputs = projected_and_relative(farthest)
    found = attended(*inputs, causal=causal, window=window)
    expected = by_loops(*inputs, causal=causal, window=window)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_the_gradient_is_that_of_differences(causal: bool, window: int) -> None:
    torch.manual_seed(3)
    inputs = [x.requires_grad_() for x in projected_and_relative(2)]
    assert gradcheck(lambda *inputs: attended(*inputs, causal=causal, window=window), inputs)


@pytest.mark.parametrize("causal", [True, False])
def test_weights_are_those_that_values_are_summed_by(causal: bool) -> None:
    torch.manual_seed(4)
    query_key, values, for_keys, for_values = projected_and_relative(2, K, PACKED.longest)
    # What is attended to then says where, and how much.
    values[:] = torch.eye(PACKED.longest, dtype=torch.float64)[PACKED.positions][:, None, None]
    for_values.zero_()
    expected = by_loops(query_key, values, for_keys, for_values, causal=causal, window=0)
    weights = attention_weights(
        [query_key, values], SENTENCES, SENTENCES, causal=causal, relative=(for_keys, for_values)
    )  # (B, H, T, S)
    found = weights.transpose(1, 2)[PACKED.sentences, PACKED.positions]  # (n, H, S)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_a_step_attends_as_the_last_query_of_all() -> None:
    torch.manual_seed(5)
    length, farthest = 7, 2
    query, key, value = (normal(1, H, length, width) for width in (K, K, V))
    relative = normal(2 * farthest + 1, K), normal(2 * farthest + 1, V)
    mask = np.ones((1, H, length, length), dtype=bool)
    expected = attention_by_loops(
        query.numpy(), key.numpy(), value.numpy(), mask, relative[0].numpy(), relative[1].numpy()
    )[:, :, -1:]
    found = attend(query[:, :, -1:], key, value, None, relative)
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-12, rtol=0)
