"""Word alignments of translations, read off cross-attention (see `torch_engine`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nmt.lexical.token_offsets import WORD_START, token_offsets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nmt.markup.text_units import Link

    Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Alignment:
    """The source tokens and words that a translation comes from."""

    src_tokens: tuple[str, ...]  # S subwords
    positions: tuple[int, ...]  # (T,) source token with the highest attention of each target token
    words: tuple[tuple[int, int], ...]  # pairs of (source word, target word)
    # (T, S) for each segment of the line: attention of target tokens to source tokens.
    attention: tuple[Floats, ...] = field(compare=False)

    @classmethod
    def from_attention(
        cls, attention: Sequence[Floats], src_tokens: Sequence[str], tgt_tokens: Sequence[str]
    ) -> Alignment:
        """Read it off the attention (T, S) in each segment of a line, S > 0, and all its tokens."""
        positions: list[int] = []
        first = 0  # source token of the segment
        for segment in attention:
            positions += (first + segment.argmax(axis=1)).tolist()
            first += segment.shape[1]
        words = align_words(positions, src_tokens, tgt_tokens)
        return cls(tuple(src_tokens), tuple(positions), tuple(words), tuple(attention))

    def links(
        self, src_text: str, tgt_text: str, tgt_tokens: Sequence[str]
    ) -> tuple[list[Link], list[Link]]:
        """Return the links by characters of both texts, and those of `weaker_links`."""
        src, tgt = token_offsets(src_text, self.src_tokens), token_offsets(tgt_text, tgt_tokens)
        pairs = zip(self.positions, tgt, strict=True)
        links = [(*src[position], *offsets) for position, offsets in pairs]
        return links, [(*src[one], *tgt[other]) for one, other in self.weaker_links()]

    def weaker_links(self) -> list[tuple[int, int]]:
        """Return the target token that attends most to each source token without any link.

        Pairs of source token and target token, counted from 0 over all segments.
        """
        linked = set(self.positions)
        links = []
        first_src = first_tgt = 0
        for segment in self.attention:
            targets, sources = segment.shape
            best = segment.argmax(axis=0).tolist() if targets else []
            links += [
                (first_src + src, first_tgt + tgt)
                for src, tgt in enumerate(best)
                if first_src + src not in linked
            ]
            first_src, first_tgt = first_src + sources, first_tgt + targets
        return links


def align_words(
    alignment: Sequence[int], src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the pairs of words that have aligned subwords.

    U+2581 in tokens separates words. A token that is only this mark belongs to no word.

    alignment: the source position of each target token.
    src_tokens, tgt_tokens: subwords as SentencePiece writes them, without bos and eos.
    Returns (source word, target word), counted from 0, in ascending order.
    """
    src_words, tgt_words = _words_of(src_tokens), _words_of(tgt_tokens)
    pairs = {
        (src_word, tgt_word)
        for own, position in zip(tgt_words, alignment, strict=True)
        for tgt_word in own
        for src_word in src_words[position]
    }
    return sorted(pairs)


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Write pairs of words in the Pharaoh format: `0-0 1-2`."""
    return " ".join(f"{src}-{tgt}" for src, tgt in pairs)


def _words_of(tokens: Sequence[str]) -> list[list[int]]:
    """Return the words of each token: one, or several if it contains spaces.

    ["▁a", "b", "▁", "c", "▁d▁e"] is "ab c d e", and gives [[0], [0], [], [1], [2, 3]].
    """
    words = []
    number, inside = -1, False
    for token in tokens:
        of_token = []
        for character in token:
            if character == WORD_START:
                inside = False
            else:
                number += not inside
                inside = True
                of_token.append(number)
        words.append(list(dict.fromkeys(of_token)))
    return words
