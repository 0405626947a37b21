"""Multi-step attention (Gehring et al. 2017, section 3.3): each layer of the decoder has its own.

Legend: B sentences, S source length, T target length, Q queries of a sentence (T in training, W
hypotheses in search), D d_model, H hidden width, n tokens of packed sentences.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from nmt.models.contract import Memory
from nmt.models.initial import variance_preserving
from nmt.models.key_value_cache import first_of, reorder_
from nmt.models.linear import linear
from nmt.models.table import Table


class Source:
    """What all layers attend to, made once a sentence: keys z and values (z + e) * sqrt(S).

    z is the encoder's output and e the source's embeddings. A mean of S values has less variance
    than one of them: scaled by S * sqrt(1 / S), it has as much if the weights are equal (section
    3.4).
    """

    def __init__(self, memory: Memory) -> None:
        keys, values = memory.states.chunk(2, dim=-1)  # each (B, S, D)
        scale = memory.mask.sum(dim=1).double().sqrt().to(values.dtype)[:, None, None]  # (B, 1, 1)
        self.keys_values = torch.stack((keys, values * scale))  # (2, B, S, D)
        self.mask = memory.mask.clone()  # (B, S); the memory stays as it is

    def select(self, sentences: Tensor) -> None:
        """Keep these sentences (B',) int64 on the CPU, in this order."""
        reorder_(self.keys_values, 1, sentences)
        reorder_(self.mask, 0, sentences)
        self.keys_values = first_of(self.keys_values, 1, len(sentences))
        self.mask = first_of(self.mask, 0, len(sentences))

    def attend(self, queries: Tensor) -> Tensor:
        """Return the weighted sums (B, Q, D) of values that queries (B, Q, D) see."""
        _, values = self.keys_values
        return torch.bmm(self.weights(queries), values)

    def weights(self, queries: Tensor) -> Tensor:
        """Return softmax(queries keys^T), 0 at padding: (B, Q, S)."""
        keys = self.keys_values[0].to(queries.dtype)  # (B, S, D)
        scores = torch.bmm(queries, keys.transpose(1, 2))  # (B, Q, S)
        return scores.masked_fill(~self.mask[:, None], -math.inf).softmax(dim=-1)


class MultiStepAttention(nn.Module):
    """A layer's attention, from its states h and the embeddings g of what it has read last."""

    def __init__(self, d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.query = variance_preserving(d_hidden, d_model)
        self.output = variance_preserving(d_model, d_hidden)

    def queries(self, h: Tensor, g: Tensor) -> Tensor:
        """Return d = W h + b + g (n, D) for h (n, H) and g (n, D)."""
        return linear(h, self.query.weight, self.query.bias) + g

    def project(self, attended: Tensor) -> Tensor:
        """Return what is added to the states (n, H) for what was attended to (n, D)."""
        return linear(attended, self.output.weight, self.output.bias)

    def forward(self, h: Tensor, g: Tensor, own: Table, source: Source) -> Tensor:
        """Attend from h (n, H) and g (n, D), laid out by `own`, to their sources: (n, H)."""
        attended = source.attend(own.rows(self.queries(h, g)))  # (B, T, D)
        return self.project(own.packed(attended[None])[:, 0, 0])

    def weights(self, h: Tensor, g: Tensor, own: Table, source: Source) -> Tensor:
        """Return the weights that `forward` attends by, (B, 1, T, S), in fp32 or wider."""
        queries = self.queries(h, g)
        wide = queries.to(torch.promote_types(queries.dtype, torch.float32))
        weights = source.weights(own.rows(wide)) * own.mask[..., None]  # 0 at padding
        return weights[:, None]  # one head
