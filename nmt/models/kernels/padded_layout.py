"""Padded layouts of packed sentences, head by head, and back.

Legend: B sentences (all, or those of a group), L tokens of the longest (T of queries, S of keys), H
heads, K and V the widths of a head's keys and values, n and m tokens of packed sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.data.batches import Packed, PaddedGroup

Projected = Sequence[Tensor]
"""Queries, keys and values as products make them: tensors (n, parts, H, width), whose parts are
those three in this order. The first tensor has the queries. Self-attention has (queries with keys
and values,), cross-attention (queries, keys with values). If keys and values differ in width or
rotation, they are (queries with keys, values) and (queries, keys, values).
"""


@dataclass(frozen=True)
class PaddedLayout:
    """The positions of packed tokens in a padded tensor whose rows are sentences.

    For example, two sentences, of the tokens 0 1 2 and 3 4:

        tokens     0 1 2     mask  1 1 1     sentences  0 0 0 1 1
                   3 4 4           1 1 0     positions  0 1 2 0 1

    Padding repeats a real token, so that one `index_select` lays out all, and no place holds a
    number that is not finite. Whoever computes with it hides it by the mask.
    """

    tokens: Tensor  # (B, L) int64: the token at each position; at padding, the last one of the row
    mask: Tensor  # (B, L) bool: True = a real token
    sentences: Tensor  # (n,) int64: row of each token
    positions: Tensor  # (n,) int64: column of each token

    @classmethod
    def of(cls, packed: Packed, multiple: int = 1) -> PaddedLayout:
        """Lay all sentences out, in a length that is a multiple of some number."""
        (group,) = packed.in_one_group().groups
        longest = -(-packed.longest // multiple) * multiple
        return cls.of_group(packed, group._replace(longest=longest))

    @classmethod
    def of_group(cls, packed: Packed, group: PaddedGroup) -> PaddedLayout:
        """Lay the sentences of a group out."""
        first_sentence, end_sentence = group.sentences.start, group.sentences.stop
        starts = packed.starts[first_sentence : end_sentence + 1]
        columns = torch.arange(group.longest, device=starts.device)  # (L,)
        first, end = starts[:-1, None].long(), starts[1:, None].long()  # (B, 1)
        tokens = torch.minimum(first + columns, end - 1)  # (B, L)
        sentences = packed.sentences[group.tokens] - first_sentence
        return cls(tokens, columns < end - first, sentences, packed.positions[group.tokens])

    def rows(self, x: Tensor) -> Tensor:
        """Lay out x (n, D): (B, L, D)."""
        return x.index_select(0, self.tokens.flatten()).view(*self.tokens.shape, -1)

    def packed(self, laid_out: Tensor) -> Tensor:
        """Undo `rows`: (B, L, D) -> (n, D)."""
        places = self.sentences * self.tokens.shape[1] + self.positions  # (n,)
        return laid_out.flatten(0, 1).index_select(0, places)


@dataclass(frozen=True)
class HeadLayout:
    """The places of all heads of packed tokens in padded tensors, one (B * H, L) for each group.

    The P places of all groups lie one after the other in one tensor, so that each of `lay_out` and
    `packed` is a single `index_select`, however many groups there are. `groups` only views parts.

    For example, three sentences of the tokens 0 1 2, 3 4 and 5, with H = 2. The first two are a
    group. Each head of a sentence is a row, so P = 4 * 3 + 2 * 1 = 14:

        places  0 1 2  3 4 5  6 7 8  9 10 11  12  13
        tokens  0 1 2  0 1 2  3 4 4  3  4  4   5   5
        heads   0 0 0  1 1 1  0 0 0  1  1  1   0   1

    In the field `places`, token 3 has 6 and 9, its heads. Nothing has 8 and 11, which are padding.
    So `packed` never reads what was computed there.
    """

    tokens: Tensor  # (P,) int64: the token at each place
    heads: Tensor  # (P,) int64: its head
    places: Tensor  # (n, H) int64: where each head of each token is
    shapes: tuple[tuple[int, int], ...]  # (B * H, L) of each group

    @classmethod
    def of(cls, groups: Sequence[PaddedLayout], num_heads: int) -> HeadLayout:
        """Lay the heads of groups out, which together have all tokens in their order."""
        head = torch.arange(num_heads, device=groups[0].tokens.device)  # (H,)
        tokens, heads, places, shapes, first = [], [], [], [], 0
        for group in groups:
            rows, length = group.tokens.shape
            by_head = group.tokens[:, None].expand(-1, num_heads, -1)  # (B, H, L)
            tokens.append(by_head.flatten())
            heads.append(head[:, None].expand_as(by_head).flatten())
            row = group.sentences[:, None] * num_heads + head  # (n of the group, H)
            places.append(row * length + group.positions[:, None] + first)
            shapes.append((rows * num_heads, length))
            first += by_head.numel()
        return cls(torch.cat(tokens), torch.cat(heads), torch.cat(places), tuple(shapes))

    def lay_out(self, x: Tensor, part: int) -> Tensor:
        """Lay out one part of x (n, parts, H, K): (P, K)."""
        _, parts, heads, width = x.shape
        # Token, part and head count through the rows of x as (n * parts * H, K). With H = 2 and the
        # parts query, key and value, the key (part 1) of head 1 of token 3 is in row
        # 3 * (3 * 2) + 1 + 1 * 2 = 21.
        sources = self.tokens * (parts * heads) + (self.heads + part * heads)  # (P,)
        return x.reshape(-1, width).index_select(0, sources)

    def packed(self, laid_out: Tensor) -> Tensor:
        """Undo `lay_out` for all parts at once: (parts, P, K) -> (n, parts, H, K)."""
        parts, size, width = laid_out.shape
        part = torch.arange(parts, device=laid_out.device)[:, None] * size  # (parts, 1)
        sources = self.places[:, None] + part  # (n, parts, H)
        flat = laid_out.view(-1, width).index_select(0, sources.flatten())
        return flat.view(*sources.shape, width)

    def groups(self, laid_out: Tensor) -> list[Tensor]:
        """View (P, K) as the groups' tensors (B * H, L, K)."""
        parts = torch.split(laid_out, [rows * length for rows, length in self.shapes])
        shaped = zip(parts, self.shapes, strict=True)
        return [part.view(rows, length, -1) for part, (rows, length) in shaped]


def in_heads(projected: Projected, queries: HeadLayout, keys: HeadLayout) -> Iterator[Tensor]:
    """Yield queries, keys and values, each laid out: (P, K) or (P, V)."""
    for number, x in enumerate(projected):
        layout = keys if number else queries
        for part in range(x.shape[1]):
            yield layout.lay_out(x, part)
