"""Token embeddings with sinusoidal positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.dropout import dropout


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Return position encodings (length, d_model) in fp32.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) its cosine: wavelengths run
    from 2 pi to 10000 * 2 pi (section 3.5).
    """
    positions = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    pairs = torch.arange(0, d_model, 2, dtype=torch.float64)  # (d_model / 2,)
    angles = positions * torch.exp(pairs * (-math.log(10000.0) / d_model))  # (length, d_model / 2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


class TokenEmbedding(nn.Module):
    """Embeddings scaled by sqrt(d_model), plus positions, with dropout on the sum (section 5.4).

    The same matrix, unscaled, projects the decoder's output to logits where embeddings are tied.
    """

    def __init__(self, vocab_size: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        # Variance 1 / d_model, so that scaled embeddings and logits both start at unit variance.
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.dropout = dropout
        self._positions = torch.empty(0, d_model)

    def forward(self, tokens: Tensor, positions: Tensor, end: int) -> Tensor:
        """Embed tokens that stand at some positions, all of them below `end`.

        Args:
            tokens: (..., ) int64.
            positions: int64, of a shape that broadcasts to that of tokens.
            end: a bound, so that no device has to be asked for the largest.

        Returns:
            (..., D).
        """
        scale = math.sqrt(self.weight.shape[1])
        embedded = F.embedding(tokens, self.weight) * scale  # (..., D)
        summed = embedded + F.embedding(positions, self._positions_until(end))  # (..., D)
        return dropout(summed, self.dropout, self.training)

    def _positions_until(self, end: int) -> Tensor:
        table = self._positions
        if len(table) < end or (table.device, table.dtype) != (
            self.weight.device,
            self.weight.dtype,
        ):
            # Doubling keeps the number of rebuilds logarithmic in the longest sentence seen.
            table = sinusoidal_positions(max(2 * len(table), end, 256), self.weight.shape[1])
            self._positions = table = table.to(self.weight)
        return table[:end]
