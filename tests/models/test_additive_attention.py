"""Additive attention against loops and a hand computation."""

from __future__ import annotations

import math

import numpy as np
import torch
from reference import additive_attention

from nmt.models.recurrent import AdditiveAttention

WIDTH, INNER = 6, 5


def test_it_is_the_formula_for_each_hypothesis_of_each_sentence() -> None:
    torch.manual_seed(1)
    attention = AdditiveAttention(WIDTH, INNER).double()
    values = torch.randn(2, 4, WIDTH, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    states = torch.randn(6, WIDTH, dtype=torch.float64)  # 3 hypotheses of each sentence
    with torch.no_grad():
        memory = attention.keys(values, mask)
        found, weights = attention(states @ attention.query.T, memory)
    w, u, v = (p.detach().numpy() for p in (attention.query, attention.key, attention.score))
    for row, state in enumerate(states.numpy()):
        sentence = row // 3
        real = values[sentence, mask[sentence]].numpy()
        expected = additive_attention(state, real, w, u, v)
        np.testing.assert_allclose(weights[row, : len(real)], expected, atol=1e-12)
        assert not weights[row, len(real) :].any()
        np.testing.assert_allclose(found[row], expected @ real, atol=1e-12)


def test_by_hand() -> None:
    # One query 1 and keys 0 and 1, all of one number, W = U = 1 and v = 2: scores are 2 tanh(1)
    # and 2 tanh(2), so the second weight is 1 / (1 + exp(2 tanh(1) - 2 tanh(2))) = 0.5999.
    attention = AdditiveAttention(1, 1).double()
    with torch.no_grad():
        for weight, number in ((attention.query, 1.0), (attention.key, 1.0)):
            weight.fill_(number)
        attention.score.fill_(2.0)
        values = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
        memory = attention.keys(values, torch.ones(1, 2, dtype=torch.bool))
        found, weights = attention(torch.ones(1, 1, dtype=torch.float64), memory)
    second = 1 / (1 + math.exp(2 * math.tanh(1) - 2 * math.tanh(2)))
    assert round(second, 4) == 0.5999
    np.testing.assert_allclose(weights, [[1 - second, second]], atol=1e-12)
    np.testing.assert_allclose(found, [[second]], atol=1e-12)


def test_weights_of_half_precision_sum_to_one_in_fp32() -> None:
    torch.manual_seed(1)
    attention = AdditiveAttention(WIDTH, INNER).bfloat16()
    values = torch.randn(1, 50, WIDTH).bfloat16()
    memory = attention.keys(values, torch.ones(1, 50, dtype=torch.bool))
    found, weights = attention(torch.zeros(1, INNER).bfloat16(), memory)
    assert (found.dtype, weights.dtype) == (torch.bfloat16, torch.float32)
    assert abs(float(weights.detach().sum()) - 1) < 1e-6
