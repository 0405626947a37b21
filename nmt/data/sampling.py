"""A uniform sample of the training text, and what of it the rules let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.data.blocks import Block
from nmt.data.cleaning import CODES, KEPT, Cleaner, Verdicts
from nmt.data.corpus import Encoding
from nmt.data.decoding import BlockDecoder
from nmt.data.moses import Moses
from nmt.data.permutation import Permutation
from nmt.data.sources import SourceText

# SentencePiece's longest piece: a line of n characters has at least n / 16 tokens.
_PIECE_CHARACTERS = 16


def sample_blocks(
    texts: Sequence[SourceText], encoding: Encoding, *, size: int, seed: int
) -> Iterator[Block]:
    """Yield `size` lines of the texts, or all, in their order.

    Each set of lines is as likely as any other: they are the first that a permutation of all lines
    begins with.
    """
    total = sum(text.lines for text in texts)
    chosen = np.arange(min(size, total))
    if size < total:
        chosen = np.sort(Permutation(total, (seed,)).take(chosen))
    first = 0  # of the block, among all lines
    for corpus, text in enumerate(texts):
        for block in text.read(encoding, corpus=corpus):
            begin, end = np.searchsorted(chosen, [first, first + block.lines])
            if end - begin == block.lines:
                yield block
            elif begin < end:
                yield block.select(chosen[begin:end] - first)
            first += block.lines


@dataclass(frozen=True)
class CleanSample:
    """What the rules let through of a block, as the vocabulary is to see it."""

    pairs: list[tuple[str, str]]
    verdicts: Verdicts  # of all pairs of the block


@dataclass(frozen=True)
class SampleCleaner:
    """Judges the pairs of a block by their text, and by the tokens that they must have at least."""

    decode: BlockDecoder
    cleaner: Cleaner
    moses: tuple[Moses | None, Moses | None]

    def __call__(self, block: Block) -> CleanSample:
        src, tgt = self.decode(block)
        verdicts = self.cleaner.judge_text(src, tgt)
        if self.cleaner.applies("too_long"):
            longest = np.maximum(src.lengths, tgt.lengths)
            too_long = longest > _PIECE_CHARACTERS * self.cleaner.max_length
            verdicts[too_long & (verdicts == KEPT)] = CODES["too_long"]
        kept = np.flatnonzero(verdicts == KEPT)
        sides = [
            [rules.apply(side.lines[at]) if rules else side.lines[at] for at in kept]
            for side, rules in zip((src, tgt), self.moses, strict=True)
        ]
        return CleanSample(list(zip(*sides, strict=True)), verdicts)
