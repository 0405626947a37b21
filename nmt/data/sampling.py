"""A sample of the training text, uniform or by weight, and what of it the rules let through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.data.blocks import Block
from nmt.data.cleaning import CODES, KEPT, Cleaner, Verdicts
from nmt.data.corpus import Encoding
from nmt.data.decoding import BlockDecoder
from nmt.data.epochs import Epochs
from nmt.data.moses import Moses
from nmt.data.permutation import Permutation
from nmt.data.sources import SourceText

# SentencePiece's longest piece: a line of n characters has at least n / 16 tokens.
_PIECE_CHARACTERS = 16


def sample_blocks(
    texts: Sequence[SourceText],
    encoding: Encoding,
    *,
    size: int,
    seed: int,
    by_weight: bool = False,
) -> Iterator[Block]:
    """Yield `size` lines of the texts, or all, in their order.

    Each set of lines is as likely as any other: they are the first that a permutation of all lines
    begins with. `by_weight` draws from what an epoch visits instead of from all lines: with a
    weight of 2 a line is twice as likely, and may be drawn twice.
    """
    epoch = Epochs([(text.lines, text.weight if by_weight else 1.0) for text in texts], seed=seed)
    chosen = np.arange(min(size, epoch.visits))
    if size < epoch.visits:
        chosen = Permutation(epoch.visits, (seed,)).take(chosen)
    chosen = np.sort(epoch.pairs_of(chosen, 0))
    first = 0  # of the block, among all lines
    for corpus, text in enumerate(texts):
        for block in text.read(encoding, corpus=corpus):
            begin, end = np.searchsorted(chosen, [first, first + block.lines])
            rows = chosen[begin:end] - first
            if np.array_equal(rows, np.arange(block.lines)):
                yield block
            elif len(rows):
                yield block.select(rows)
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
        verdicts = self.cleaner.judge_block(block, src, tgt)
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
