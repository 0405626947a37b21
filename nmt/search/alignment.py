"""Which source word a word of a translation comes from, read off the decoder's cross-attention.

Averaged over heads, the decoder's penultimate layer agrees best with alignments made by people, and
a target token's source is where the state looks that predicts it (Garg et al. 2019, "Jointly
Learning to Align and Translate with Transformer Models", the layer average baseline). The state
that reads the token may show it better, in a lower layer (Chen et al. 2020, "Accurate Word
Alignment Induction from Neural Machine Translation"). No model is trained to align: expect errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.batches import Batch, collate
from nmt.data.shards import TokenRows
from nmt.models.contract import AttentionWeights, TranslationModel
from nmt.search.engine import Ids
from nmt.search.forced import Pair, forced
from nmt.search.pieces import WORD_START

Floats = NDArray[np.float32]

_FROM_TOP = 1  # the layer that aligns: the penultimate


@dataclass(frozen=True)
class Alignment:
    """From where in its source a translation comes."""

    src_tokens: tuple[str, ...]  # S subwords
    positions: tuple[int, ...]  # (T,) the source token that each target token looks at most
    words: tuple[tuple[int, int], ...]  # pairs of (source word, target word)
    # (T, S) for each piece of the line: how much each target token looks at each source token.
    attention: tuple[Floats, ...] = field(compare=False)

    @classmethod
    def of(
        cls, attention: Sequence[Floats], src_tokens: Sequence[str], tgt_tokens: Sequence[str]
    ) -> Alignment:
        """Read the alignment off the attention (T, S) of a line's pieces; no S is 0.

        Args:
            attention: of the pieces, which look at nothing of each other.
            src_tokens, tgt_tokens: of all of them.
        """
        positions: list[int] = []
        first = 0  # source token of the piece
        for piece in attention:
            positions += (first + piece.argmax(axis=1)).tolist()
            first += piece.shape[1]
        words = align_words(positions, src_tokens, tgt_tokens)
        return cls(tuple(src_tokens), tuple(positions), tuple(words), tuple(attention))


class Aligner:
    """Tells what a model's decoder looks at."""

    def __init__(self, model: TranslationModel, device: torch.device) -> None:
        """Take a model in evaluation mode, on the device."""
        self.model = model
        self.device = device

    def attention(self, pairs: Sequence[Pair]) -> list[Floats | None]:
        """Return (T, S) for each pair of source and target ids, eos in neither of them.

        There is none where there is not enough memory for it. See `between_tokens`.
        """
        return forced(pairs, self._attention, self.device)

    @torch.inference_mode()
    def weights(self, source: Ids, target: Ids) -> AttentionWeights:
        """Return all weights of a pair of source and target ids, eos in neither of them."""
        src, tgt = (TokenRows.of([ids], token_bytes=4) for ids in (source, target))
        return self.model.attention_weights(collate(src, tgt).to(self.device))

    @torch.inference_mode()
    def _attention(self, batch: Batch) -> list[Floats]:
        layer = self.model.cross_attention(batch, _FROM_TOP)  # (B, H, T, S)
        mean = layer.mean(dim=1).cpu()  # (B, T, S)
        lengths = ((side.starts.diff() - 1).tolist() for side in (batch.src, batch.tgt_in))
        return [
            between_tokens(rows, source, target)
            for rows, source, target in zip(mean, *lengths, strict=True)
        ]


def between_tokens(attention: Tensor, source: int, target: int) -> Floats:
    """Return how much each target token looks at each source token, (target, source).

    eos is left out on both sides. Models look at the source's where they need no word in
    particular, so that rows do not sum to 1.

    Args:
        attention: (T, S), padded: rows of the states that predict the target tokens and eos,
            columns of the source tokens and eos.
        source, target: numbers of tokens.
    """
    return attention[:target, :source].numpy().copy()  # and nothing of the others


def align_words(
    alignment: Sequence[int], src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the pairs of words of which any two subwords are aligned.

    Words are what stands between the spaces that tokens mark by U+2581. A token that is nothing
    but a mark belongs to none.

    Args:
        alignment: the source position of each target token.
        src_tokens, tgt_tokens: subwords as SentencePiece writes them, without bos and eos.

    Returns:
        (source word, target word), counted from 0, in ascending order.
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
    """Write pairs of words as the decoder Pharaoh did, and everyone since: `0-0 1-2`."""
    return " ".join(f"{src}-{tgt}" for src, tgt in pairs)


def _words_of(tokens: Sequence[str]) -> list[list[int]]:
    """Return the words that each token has a part of: one, or several if it holds spaces.

    ["▁a", "b", "▁", "c", "▁d▁e"] is "ab c d e", and gives [[0], [0], [], [1], [2, 3]].
    """
    found = []
    number, inside = -1, False
    for token in tokens:
        own: list[int] = []
        for character in token:
            if character == WORD_START:
                inside = False
                continue
            if not inside:
                number, inside = number + 1, True
            if number not in own:
                own.append(number)
        found.append(own)
    return found
