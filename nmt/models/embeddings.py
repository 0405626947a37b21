"""Token embeddings (Vaswani et al. 2017, section 3.4)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import ModelConfig
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


def shared_embeddings(
    config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int
) -> tuple[TokenEmbedding, TokenEmbedding, nn.Parameter]:
    """Return the target's embedding, the source's, and the output projection (V, D).

    They are one, two or three matrices, as `tie_embeddings` says (section 3.4).
    """
    width = config.d_model
    target = TokenEmbedding(tgt_vocab_size, width, config.dropout)
    source = (
        target
        if config.tie_embeddings == "all"
        else TokenEmbedding(src_vocab_size, width, config.dropout)
    )
    projection = (
        nn.Parameter(nn.init.normal_(torch.empty(tgt_vocab_size, width), std=width**-0.5))
        if config.tie_embeddings == "none"
        else target.weight
    )
    return target, source, projection
