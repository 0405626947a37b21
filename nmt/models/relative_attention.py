"""Relative positions in self-attention (Shaw, Uszkoreit and Vaswani 2018, section 3).

What a query at i has to do with a key at j goes by the distance clip(j - i, -k, k), of which there
are 2k + 1. So all that depends on it is computed once a distance and query, and either spread over
the keys or summed up from them: no tensor has a vector for each query and key (their section 3.3).

Legend: T queries, S keys, K and V the widths of a head's keys and of its values, k the farthest
distance that is told from those beyond it. Query t stands at the place t + first among the keys.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Relative = tuple[Tensor, Tensor]
"""What is added, at each distance from -k to k, to keys and to values: (2k + 1, K), (2k + 1, V)."""


class RelativePositions(nn.Module):
    """The vectors a^K and a^V of a layer, which its heads share."""

    def __init__(self, farthest: int, head_widths: tuple[int, int]) -> None:
        super().__init__()
        self.keys, self.values = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * farthest + 1, width)))
            for width in head_widths
        )

    @property
    def vectors(self) -> Relative:
        """Those of keys, and those of values."""
        return self.keys, self.values


def spread_by_distance(by_distance: Tensor, keys: int, first: int = 0) -> Tensor:
    """Give each key what its distance from the query has.

    Args:
        by_distance: (..., T, 2k + 1), of the distances -k to k.
        keys: S.
        first: where the first query stands among the keys.

    Returns:
        (..., T, S): of query t and key s, what the distance clip(s - t - first, -k, k) has.
    """
    *rows, queries, distances = by_distance.shape
    farthest, device = distances // 2, by_distance.device
    places = torch.arange(queries, device=device)[:, None] + first  # (T, 1)
    apart = torch.arange(keys, device=device) - places  # (T, S)
    index = apart.clamp(-farthest, farthest) + farthest  # (T, S)
    return by_distance.gather(-1, index.expand(*rows, queries, keys))


def sum_by_distance(x: Tensor, farthest: int, first: int = 0) -> Tensor:
    """Sum over the keys of each distance, which is the adjoint of `spread_by_distance`.

    In the same order each time, unlike the sums of `scatter_add` on GPUs.

    Args:
        x: (..., T, S).
        farthest: k.
        first: where the first query stands among the keys.

    Returns:
        (..., T, 2k + 1): the sums over the keys at the distances -k and less, -k + 1 to k - 1, each
        of which only one key has, and k and more.
    """
    *rows, queries, keys = x.shape
    device = x.device
    places = torch.arange(queries, device=device)[:, None] + first  # (T, 1)
    at = places + torch.arange(1 - farthest, farthest, device=device)  # (T, 2k - 1)
    index = at.clamp(0, keys - 1).expand(*rows, queries, 2 * farthest - 1)
    between = x.gather(-1, index).masked_fill_((at < 0) | (at >= keys), 0.0)  # (..., T, 2k - 1)
    before = x.tril(first - farthest).sum(dim=-1, keepdim=True)  # (..., T, 1)
    behind = x.triu(first + farthest).sum(dim=-1, keepdim=True)
    return torch.cat((before, between, behind), dim=-1)
