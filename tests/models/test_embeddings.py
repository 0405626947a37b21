"""Embeddings scaled by sqrt(d_model) plus the paper's sinusoids."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import sinusoidal_positions as positions_by_formula

from nmt.models.embeddings import TokenEmbedding, sinusoidal_positions


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (50, 16), (1_000, 64), (7, 512)])
def test_positions_are_the_paper_s_formula(length: int, d_model: int) -> None:
    found = sinusoidal_positions(length, d_model)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), positions_by_formula(length, d_model), atol=6e-7)


def test_wavelengths_run_from_two_pi_towards_ten_thousand_times_that() -> None:
    # Column 0 is sin(pos); the last pair's angle is pos / 10000^(510 / 512), 10000 and not 1000.
    found = sinusoidal_positions(2, 512)[1]
    assert found[0] == pytest.approx(math.sin(1.0))
    assert found[510] == pytest.approx(math.sin(10000 ** -(510 / 512)), rel=1e-5)


def test_an_embedding_is_scaled_and_its_position_added() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(10, 16, dropout=0.5).eval()
    tokens = torch.tensor([[3, 7, 3], [0, 1, 2]])
    positions = torch.from_numpy(positions_by_formula(8, 16)).float()
    expected = embedding.weight[tokens] * 4.0 + positions[:3]  # sqrt(16) = 4
    torch.testing.assert_close(embedding(tokens, torch.arange(3), 3), expected)
    places = torch.tensor([[5, 6, 7], [0, 7, 2]])
    mixed = embedding.weight[tokens] * 4.0 + positions[places]
    found = embedding(tokens, places, 8)
    torch.testing.assert_close(found, mixed)


def test_positions_go_on_beyond_any_length_seen_before() -> None:
    embedding = TokenEmbedding(4, 8, dropout=0.0)
    tokens = torch.zeros(1, 3, dtype=torch.int64)
    for start in (0, 254, 1_000, 5):
        wanted = positions_by_formula(start + 3, 8)[start:]
        places = torch.arange(start, start + 3)
        found = embedding(tokens, places, start + 3) - embedding.weight[0] * math.sqrt(8)
        np.testing.assert_allclose(found.detach().numpy()[0], wanted, atol=2e-6)


def test_positions_follow_the_weights_type() -> None:
    embedding = TokenEmbedding(4, 8, dropout=0.0)
    tokens = torch.zeros(1, 3, dtype=torch.int64)
    place = torch.arange(3), 3
    assert embedding(tokens, *place).dtype == torch.float32
    assert embedding.bfloat16()(tokens, *place).dtype == torch.bfloat16
    assert embedding.double()(tokens, *place).dtype == torch.float64


def test_training_goes_on_with_positions_that_translating_made() -> None:
    embedding = TokenEmbedding(4, 8, dropout=0.1)
    tokens = torch.zeros(1, 3, dtype=torch.int64)
    with torch.inference_mode():
        embedding(tokens, torch.arange(3), 3)
    torch.autograd.backward(embedding(tokens, torch.arange(3), 3).sum())
    assert embedding.weight.grad is not None


def test_weights_start_with_variance_one_over_d_model() -> None:
    torch.manual_seed(1)
    weight = TokenEmbedding(2_000, 64, dropout=0.0).weight
    # 128,000 draws: the standard error of the deviation is sigma / sqrt(2 * 128,000), 0.2 %.
    assert float(weight.detach().std()) == pytest.approx(1 / 8, rel=0.01)


def test_dropout_falls_on_the_sum_while_training() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(4, 64, dropout=0.5)
    tokens = torch.ones(1, 50, dtype=torch.int64)
    place = torch.arange(50), 50
    plain, dropped = embedding.eval()(tokens, *place), embedding.train()(tokens, *place)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
