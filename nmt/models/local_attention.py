"""Attention restricted to a neighbourhood (Vaswani et al. 2017, section 4): each position sees
those at a distance of at most r.

The n tokens of packed sentences are cut into blocks of r, whatever sentences they make up. What a
query sees is in its own block, the one before and the one behind, so that work and memory go by
n * 3r, or n * 2r where none behind is seen, and not by the sum of squared lengths. A mask hides
what is farther, or of another sentence.

Legend: n tokens, C = ceil(n / r) blocks, H heads of width K, S = 3r or 2r keys before a block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.data.batches import Packed


def saves_work(packed: Packed, distance: int, *, causal: bool) -> bool:
    """Tell whether blocks have fewer pairs of query and key than a table of the sentences.

    Args:
        packed: the sentences.
        distance: r.
        causal: whether a position sees none behind it.
    """
    in_table = (len(packed.starts) - 1) * packed.longest**2
    return in_table > -(-len(packed.tokens) // distance) * distance**2 * (2 if causal else 3)


def hidden_in_blocks(packed: Packed, distance: int, *, causal: bool) -> Tensor:
    """Return what the queries of each block must not see of its S keys: (C, r, S) bool.

    Args:
        packed: the sentences.
        distance: r.
        causal: whether a position sees none behind it.
    """
    count, device = len(packed.tokens), packed.tokens.device
    places = torch.arange(-(-count // distance) * distance, device=device)  # (C * r,)
    sentences = packed.sentences[places.clamp(max=count - 1)]  # (C * r,)
    first = torch.maximum(packed.starts[sentences], places - distance)  # that a query sees
    last = places if causal else places + distance
    last = torch.minimum(packed.starts[sentences + 1] - 1, last)
    width = (2 if causal else 3) * distance
    # The keys of block c begin a block before it, at (c - 1) r.
    keys = places[::distance, None, None] - distance + torch.arange(width, device=device)
    first, last = (bound.view(-1, distance, 1) for bound in (first, last))
    return (keys < first) | (keys > last)  # (C, r, S)


def with_neighbours(x: Tensor, count: int, seen: int) -> Tensor:
    """Return each block with the one before it and, if 3 are seen, the one behind it.

    Args:
        x: (C * H, r, K), blocks as `Table.heads` lays them out.
        count: C.
        seen: blocks that a query sees, 2 or 3.

    Returns:
        (C * H, S, K), 0 beyond the first block and the last.
    """
    own = x.view(count, -1, *x.shape[1:])  # (C, H, r, K)
    wide = own.new_zeros(*own.shape[:2], seen, *own.shape[2:])  # (C, H, seen, r, K)
    wide[1:, :, 0] = own[:-1]
    wide[:, :, 1] = own
    if seen == 3:
        wide[:-1, :, 2] = own[1:]
    return wide.view(len(x), -1, x.shape[-1])


def without_neighbours(wide: Tensor, count: int, seen: int) -> Tensor:
    """Sum up what each block has in all of its places: the adjoint of `with_neighbours`.

    Args:
        wide: (C * H, S, K).
        count: C.
        seen: blocks that a query sees, 2 or 3.

    Returns:
        (C * H, r, K).
    """
    rows, keys, width = wide.shape
    placed = wide.view(count, -1, seen, keys // seen, width)  # (C, H, seen, r, K)
    own = placed[:, :, 1].clone()  # (C, H, r, K)
    own[:-1] += placed[1:, :, 0]
    if seen == 3:
        own[1:] += placed[:-1, :, 2]
    return own.view(rows, -1, width)
