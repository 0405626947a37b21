"""SSRU: a recurrent unit in place of the decoder's self-attention (Kim et al. 2019, section 3.2).

    c_t = f_t * c_{t-1} + (1 - f_t) * W x_t,  f_t = sigmoid(W_f x_t + b_f)

Its output is max(0, c_t), without another projection, as in Marian. A step of search costs the same
at any length. Training computes all positions at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.device import joined
from nmt.models.kernels.linear import linear
from nmt.models.kernels.packed_attention import Sentences
from nmt.models.kv_cache import move_, moved


class SSRU(nn.Module):
    """The unit of one layer."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * d_model, d_model))  # W, then W_f
        for part in self.weight.data.chunk(2):
            nn.init.xavier_uniform_(part)
        self.bias = nn.Parameter(torch.zeros(d_model))  # b_f

    def forward(self, x: Tensor, sentences: Sentences, *, causal: bool = True) -> Tensor:
        """Map x (n, D) to (n, D); each token sees those before it in its sentence."""
        assert causal, "a recurrent unit cannot see later tokens"
        forget, added = self._gate(x)
        packed = sentences.packed
        return F.relu(_scan(forget, added, packed.positions, packed.longest)).to(x.dtype)

    def step(self, x: Tensor, layer: int, caches: Sequence[CellCache], rows: list[int]) -> Tensor:
        """Map one position x (N, D) of the hypotheses of some caches, with so many rows: (N, D)."""
        parts = zip(caches, *(torch.split(part, rows) for part in self._gate(x)), strict=True)
        cells = [cache.update(layer, forget, added) for cache, forget, added in parts]
        return F.relu(joined(cells)).to(x.dtype)

    def _gate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return f and (1 - f) * W x, each (n, D), in fp32 at least."""
        value, gate = linear(x, self.weight).chunk(2, dim=1)
        gate = gate + self.bias
        if x.dtype in (torch.bfloat16, torch.float16):  # too coarse for long sums
            value, gate = value.float(), gate.float()
        forget = gate.sigmoid()
        return forget, (1 - forget) * value


def _scan(forget: Tensor, added: Tensor, positions: Tensor, longest: int) -> Tensor:
    """Return c_t = f_t * c_{t-1} + added_t of every token (n, D), with c = 0 before a sentence.

    After the step of distance d, a token has summed up the last 2d tokens of its sentence (Hillis
    and Steele 1986). With values 1 1 1 1 and f = 1: 1 2 2 2, then 1 2 3 4.

    forget: (n, D), f.
    added: (n, D).
    positions: (n,) in the sentence, from 0; its tokens are neighbours.
    longest: a bound on positions + 1.
    """
    distance = 1
    while distance < min(longest, len(added)):
        has_earlier = (positions >= distance)[:, None]  # (n, 1)
        before = (0, 0, distance, 0)  # rows of zeros
        earlier = F.pad(added[:-distance], before)  # (n, D)
        added = torch.where(has_earlier, added + forget * earlier, added)
        forget = torch.where(has_earlier, forget * F.pad(forget[:-distance], before), forget)
        distance *= 2
    return added


class CellCache:
    """The cells of all layers, after the positions of N hypotheses so far."""

    def __init__(self, num_layers: int) -> None:
        self.length = 0
        self.num_layers = num_layers
        self._cells: Tensor | None = None  # (layers, N or more, D)

    def update(self, layer: int, forget: Tensor, added: Tensor) -> Tensor:
        """Return the next cells (N, D) of a layer, of f and added (N, D), and keep them."""
        if self._cells is None:
            self._cells = added.new_zeros(self.num_layers, *added.shape)
            self._count = len(added)  # N
        cells = self._cells[layer]
        cells.mul_(forget).add_(added)
        return cells.clone()

    def advance(self) -> None:
        """Finish a position, after all layers have updated their cells."""
        self.length += 1

    def select(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keep these rows (N',), in this order; return (2, moves) for `move`."""
        self._count = len(rows)
        return moved(rows) if self.length else np.zeros((2, 0), np.int64)

    def move(self, moves: Tensor) -> None:
        """Copy cells by (2, moves) sources and targets; all are read before any is written."""
        if self._cells is not None:
            self._cells = move_(self._cells, 1, moves, self._count)
