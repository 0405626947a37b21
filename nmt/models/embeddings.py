"""Token embeddings (Vaswani et al. 2017, section 3.4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.dropout import dropout


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

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """Embed tokens.

        Args:
            tokens: (..., ) int64.
            positions: (..., D), what is added; None: nothing.

        Returns:
            (..., D).
        """
        scale = math.sqrt(self.weight.shape[1])
        embedded = F.embedding(tokens, self.weight) * scale  # (..., D)
        if positions is not None:
            embedded = embedded + positions.to(embedded.dtype)
        return dropout(embedded, self.dropout, self.training)
