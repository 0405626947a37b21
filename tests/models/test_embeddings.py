"""Embeddings scaled by sqrt(d_model), plus what tells positions."""

from __future__ import annotations

import pytest
import torch

from nmt.models.layers import TokenEmbedding


def test_an_embedding_is_scaled_and_its_position_added() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(10, 16, dropout=0.5).eval()
    tokens, positions = torch.tensor([[3, 7, 3], [0, 1, 2]]), torch.randn(2, 3, 16)
    scaled = embedding.weight[tokens] * 4.0  # sqrt(16) = 4
    torch.testing.assert_close(embedding(tokens), scaled)
    torch.testing.assert_close(embedding(tokens, positions), scaled + positions)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_sum_has_the_weights_type(dtype: torch.dtype) -> None:
    embedding = TokenEmbedding(4, 8, dropout=0.0).to(dtype)
    assert embedding(torch.zeros(3, dtype=torch.int64), torch.ones(3, 8)).dtype == dtype


def test_weights_start_with_variance_one_over_d_model() -> None:
    torch.manual_seed(1)
    weight = TokenEmbedding(2_000, 64, dropout=0.0).weight
    # 128,000 draws: the standard error of the deviation is sigma / sqrt(2 * 128,000), 0.2 %.
    assert float(weight.detach().std()) == pytest.approx(1 / 8, rel=0.01)


def test_dropout_falls_on_the_sum_while_training() -> None:
    torch.manual_seed(1)
    embedding = TokenEmbedding(4, 64, dropout=0.5)
    tokens = torch.ones(1, 50, dtype=torch.int64)
    positions = torch.randn(1, 50, 64)
    plain, dropped = embedding.eval()(tokens, positions), embedding.train()(tokens, positions)
    kept = dropped != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
