"""Relative positions in attention (Shaw, Uszkoreit and Vaswani 2018, section 3).

They depend on the distance clip(j - i, -k, k) from a query at i to a key at j, which has 2k + 1
values. Everything that depends on the distance is computed once per query and distance. It is then
spread over the keys, or summed up from them. So no tensor has a vector for each query and key
(their section 3.3).

Legend: T queries, S keys, K and V the widths of a head's keys and values, k the largest distance.
"""

from __future__ import annotations

import torch
from torch import Tensor

Relative = tuple[Tensor, Tensor]
"""Vectors added to keys and to values at distances -k to k: (2k + 1, K), (2k + 1, V)."""


def from_last(vectors: Tensor, keys: int) -> Tensor:
    """Return the vectors (S, width) of the keys' distances from a query at the last of S positions.

    vectors: (2k + 1, width) of the distances -k to k.
    """
    # With k = 2 and S = 4, the keys are at -3 -2 -1 0, of which -3 has the vector of -2.
    farthest = len(vectors) // 2
    near = vectors[max(0, farthest + 1 - keys) : farthest + 1]
    far = keys - len(near)
    return torch.cat((vectors[:1].expand(far, -1), near)) if far else near


def spread_by_distance(by_distance: Tensor, keys: int) -> Tensor:
    """Give each key the value of its distance from the query.

    by_distance: (..., T, 2k + 1), values of the distances -k to k; keys: S.
    Returns (..., T, S): for query t and key s, the value of distance clip(s - t, -k, k).
    """
    *rows, queries, distances = by_distance.shape
    farthest, device = distances // 2, by_distance.device
    places = torch.arange(queries, device=device)[:, None]  # (T, 1)
    apart = torch.arange(keys, device=device) - places  # (T, S)
    index = apart.clamp(-farthest, farthest) + farthest  # (T, S)
    return by_distance.gather(-1, index.expand(*rows, queries, keys))


def sum_by_distance(x: Tensor, farthest: int) -> Tensor:
    """Sum over the keys of each distance: the adjoint of `spread_by_distance`.

    The order of summation is fixed, unlike in `scatter_add` on GPUs.

    x: (..., T, S); farthest: k.
    Returns (..., T, 2k + 1): the sums over the keys at distances up to -k, at -k + 1 to k - 1 (one
    key each), and from k.
    """
    *rows, queries, keys = x.shape
    device = x.device
    places = torch.arange(queries, device=device)[:, None]  # (T, 1)
    position = places + torch.arange(1 - farthest, farthest, device=device)  # (T, 2k - 1)
    # Keys that are not there are read from the edge, and count 0.
    index = position.clamp(0, keys - 1).expand(*rows, queries, 2 * farthest - 1)
    between = x.gather(-1, index).masked_fill_(
        (position < 0) | (position >= keys), 0.0
    )  # (..., T, 2k - 1)
    before = x.tril(-farthest).sum(dim=-1, keepdim=True)  # (..., T, 1)
    after = x.triu(farthest).sum(dim=-1, keepdim=True)
    return torch.cat((before, between, after), dim=-1)
