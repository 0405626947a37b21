"""Padded layouts of packed sentences, head by head, and back.

Legend: B sentences (all, or those of a group), L tokens of the longest (T of queries, S of keys), H
heads, K and V the widths of a head's keys and values, n and m tokens of packed sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.data.batches import Group, Packed

Projected = Sequence[Tensor]
"""Queries, keys and values as products make them: tensors (n, parts, H, width), whose parts are
those three in this order. The first tensor has the queries. Self-attention has (queries with keys
and values,), cross-attention (queries, keys with values). If keys and values differ in width or
rotation, they are (queries with keys, values) and (queries, keys, values).
"""


@dataclass(frozen=True)
class PaddedLayout:
    """The positions of packed tokens in a padded tensor whose rows are sentences, or blocks."""

    tokens: Tensor  # (B, L) int64: the token at each position; at padding, the last one of the row
    mask: Tensor  # (B, L) bool: True = a real token
    sentences: Tensor  # (n,) int64: row of each token
    positions: Tensor  # (n,) int64: column of each token

    @classmethod
    def of(cls, packed: Packed) -> PaddedLayout:
        """Lay all sentences out."""
        return cls._of(packed.starts, packed.longest, packed.sentences, packed.positions)

    @classmethod
    def of_group(cls, packed: Packed, group: Group) -> PaddedLayout:
        """Lay the sentences of a group out."""
        first, last = group.sentences.start, group.sentences.stop
        return cls._of(
            packed.starts[first : last + 1],
            group.longest,
            packed.sentences[group.tokens] - first,
            packed.positions[group.tokens],
        )

    @classmethod
    def _of(
        cls, starts: Tensor, longest: int, sentences: Tensor, positions: Tensor
    ) -> PaddedLayout:
        columns = torch.arange(longest, device=starts.device)  # (L,)
        first, end = starts[:-1, None].long(), starts[1:, None].long()  # (B, 1)
        tokens = torch.minimum(first + columns, end - 1)  # (B, L)
        return cls(tokens, columns < end - first, sentences, positions)

    @classmethod
    def of_blocks(cls, packed: Packed, size: int) -> PaddedLayout:
        """Lay the tokens out in blocks of one size, regardless of sentences."""
        count, device = len(packed.tokens), packed.tokens.device
        places = torch.arange(-(-count // size) * size, device=device).view(-1, size)
        tokens = torch.arange(count, device=device)
        return cls(places.clamp(max=count - 1), places < count, tokens // size, tokens % size)

    def rows(self, x: Tensor) -> Tensor:
        """Lay out x (n, D): (B, L, D)."""
        return x.index_select(0, self.tokens.flatten()).view(*self.tokens.shape, -1)

    def heads(self, x: Tensor, part: int) -> Tensor:
        """Lay out one part of x (n, parts, H, K) by heads: (B * H, L, K)."""
        _, parts, heads, width = x.shape
        first = (self.tokens * parts + part)[:, None] * heads  # (B, 1, L)
        sources = first + torch.arange(heads, device=x.device)[:, None]  # (B, H, L)
        laid_out = x.reshape(-1, width).index_select(0, sources.flatten())  # (B * H * L, K)
        return laid_out.view(-1, self.tokens.shape[1], width)

    def packed(self, laid_out: Tensor) -> Tensor:
        """Undo `heads` for all parts at once: (parts, B * H, L, K) -> (n, parts, H, K)."""
        parts, rows, length, width = laid_out.shape
        sentences = len(self.tokens)
        part = torch.arange(parts, device=laid_out.device)[:, None] * sentences  # (parts, 1)
        head = torch.arange(rows // sentences, device=laid_out.device)  # (H,)
        row = (self.sentences[:, None, None] + part) * len(head) + head  # (n, parts, H)
        sources = row * length + self.positions[:, None, None]  # (n, parts, H)
        return laid_out.view(-1, width).index_select(0, sources.flatten()).view(*row.shape, width)


def in_heads(projected: Projected, own: PaddedLayout, others: PaddedLayout) -> Iterator[Tensor]:
    """Yield queries (B * H, T, K), keys (B * H, S, K) and values (B * H, S, V)."""
    for number, x in enumerate(projected):
        layout = others if number else own
        for part in range(x.shape[1]):
            yield layout.heads(x, part)
