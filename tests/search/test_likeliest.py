"""The likeliest tokens are those that sorting everything finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nmt.search.likeliest import largest, likeliest


@pytest.mark.parametrize("size", [1, 7, 128, 200, 1_009, 8_000])
@pytest.mark.parametrize("count", [1, 2, 8, 40])
@pytest.mark.parametrize("distinct", [2, 50, 10_000])
def test_the_largest_are_those_of_a_stable_sort(size: int, count: int, distinct: int) -> None:
    # Few distinct values make many ties, of which the lowest index comes first.
    random = torch.Generator().manual_seed(size)
    values = torch.randint(distinct, (6, size), generator=random).float() - distinct / 2
    values[0, ::2] = -math.inf
    count = min(count, size)
    expected, order = values.sort(dim=1, descending=True, stable=True)
    found, indices = largest(values, count)
    assert torch.equal(found, expected[:, :count])
    assert torch.equal(indices, order[:, :count])


def test_log_probabilities_are_those_of_softmax_and_barred_tokens_are_left_out() -> None:
    logits = torch.randn(700, 1_000, generator=torch.Generator().manual_seed(1))
    found = likeliest(logits, 5, barred_ids=(7, 3))
    log_probs = logits.double().log_softmax(dim=1).numpy()
    log_probs[:, [7, 3]] = -math.inf  # 3 is eos
    order = np.argsort(-log_probs, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(found.tokens, order)
    np.testing.assert_allclose(
        found.log_probs, np.take_along_axis(log_probs, order, 1), rtol=0, atol=1e-5
    )
    assert np.isneginf(found.eos_log_probs).all()
    found = likeliest(logits, 5, barred_ids=())
    expected = logits.double().log_softmax(dim=1)[:, 3]
    np.testing.assert_allclose(found.eos_log_probs, expected.numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("token", [0, 500])
def test_a_row_without_numbers_is_told_by_its_first(bad: float, token: int) -> None:
    logits = torch.zeros(3, 1_000)
    logits[1, token] = bad
    found = likeliest(logits, 1, barred_ids=(0,))
    assert np.isnan(found.log_probs[:, 0]).tolist() == [False, True, False]
