"""Additive attention (Bahdanau, Cho and Bengio 2015, section 3.1 and appendix A.1.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.key_value_cache import first_of, reorder_
from nmt.models.linear import linear


@dataclass
class Keys:
    """What hypotheses of B sentences attend to, computed once a sentence."""

    keys: Tensor  # (B, S, A)
    values: Tensor  # (B, S, H)
    mask: Tensor  # (B, S) bool, True = a real token

    def select(self, sentences: Tensor) -> None:
        """Keep these sentences (B',) int64 on the CPU, in this order; changed in place."""
        for name, x in vars(self).items():
            reorder_(x, 0, sentences)
            setattr(self, name, first_of(x, 0, len(sentences)))


class AdditiveAttention(nn.Module):
    """Weights softmax(v^T tanh(W query + U value)), and the sum of values by them.

    Legend: A the width of the hidden layer that compares, H that of queries and values.
    """

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inner, width)))  # (A, H) W
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inner, width)))  # (A, H) U
        self.score = nn.Parameter(nn.init.normal_(torch.empty(inner), std=inner**-0.5))  # (A,) v

    def keys(self, values: Tensor, mask: Tensor) -> Keys:
        """Prepare values (B, S, H), of which those under the mask (B, S) can be attended to."""
        return Keys(linear(values, self.key), values, mask)

    def forward(self, queries: Tensor, memory: Keys) -> tuple[Tensor, Tensor]:
        """Attend from the N = B * W hypotheses of B sentences to their sentence.

        Args:
            queries: (N, A), already multiplied by W.
            memory: made by `keys`.

        Returns:
            Sums of values (N, H), and the weights (N, S), which are fp32 at least.
        """
        sentences, _, inner = memory.keys.shape
        compared = queries.view(sentences, -1, 1, inner) + memory.keys[:, None]  # (B, W, S, A)
        scores = F.linear(compared.tanh(), self.score[None])[..., 0]  # (B, W, S)
        wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
        weights = wide.masked_fill(~memory.mask[:, None], -torch.inf).softmax(dim=-1)
        summed = torch.bmm(weights.to(memory.values.dtype), memory.values)  # (B, W, H)
        return summed.flatten(0, 1), weights.flatten(0, 1)
