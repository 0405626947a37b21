"""The translations of a line's segments, joined to one of the line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from nmt.lexical.token_offsets import WORD_START
from nmt.search.engine import Source
from nmt.translate.alignment import Alignment
from nmt.translate.output import Translation
from nmt.translate.segmentation import join_segments

# Search never produces these, but a foreign vocabulary's rules for decoding might.
_LINE_BREAKERS = str.maketrans("\n\r\0", "   ")


def failed(sources: Sequence[Source], error: str) -> Translation:
    """Return what stands for a line without a translation; error: why it has none."""
    return Translation("", -math.inf, -math.inf, (), (), len(sources), error=error)


def join_parts(sources: Sequence[Source], parts: Sequence[Translation]) -> Translation:
    """Join a translation of each segment."""
    text = parts[0].text
    if len(parts) > 1 or not parts[0].copied:  # else it keeps its spaces
        separators = [source.separator for source in sources]
        text = join_segments([part.text for part in parts], separators)
    return Translation(
        text.translate(_LINE_BREAKERS),
        sum(part.score for part in parts),
        sum(part.log_prob for part in parts),
        tuple(chain.from_iterable(part.tokens for part in parts)),
        tuple(chain.from_iterable(part.token_log_probs for part in parts)),
        len(parts),
        is_cut=any(part.is_cut for part in parts),
        guarded=any(part.guarded for part in parts),
        copied=all(part.copied for part in parts),
        alignment=_joined_alignment(sources, parts),
        terms=tuple(chain.from_iterable(part.terms for part in parts)),
    )


def _joined_alignment(sources: Sequence[Source], parts: Sequence[Translation]) -> Alignment | None:
    alignments = [part.alignment for part in parts if part.alignment is not None]
    if len(alignments) < len(parts):
        return None
    if len(parts) == 1:
        return alignments[0]
    tgt_tokens: list[str] = []
    joins_previous = False
    for source, part in zip(sources, parts, strict=True):
        tokens = list(part.tokens)
        if joins_previous and tokens:  # the space that begins a segment is not written
            tokens[0] = tokens[0].removeprefix(WORD_START)
        tgt_tokens += tokens
        joins_previous = not source.separator
    attention = list(chain.from_iterable(one.attention for one in alignments))
    src_tokens = list(chain.from_iterable(one.src_tokens for one in alignments))
    return Alignment.of(attention, src_tokens, tgt_tokens)


def best_sums(found: Sequence[Sequence[Translation]], count: int) -> list[tuple[Translation, ...]]:
    """Return the `count` combinations of the segments' translations with the best sums of scores.

    Each segment's translations come best first, and so do the sums. Of equal sums, the first
    differing translation decides. There may be fewer combinations than `count`.
    """
    best: list[tuple[float, tuple[Translation, ...]]] = [(0.0, ())]
    for translations in found:
        # In two sorted lists, the sum at ranks i and j (from 0) has (i + 1)(j + 1) - 1 sums that
        # are at least as high, so only few pairs can be among the best.
        sums = [
            (total + part.score, (*chosen, part))
            for rank, (total, chosen) in enumerate(best, start=1)
            for part in translations[: count // rank]
        ]
        best = sorted(sums, key=lambda one: -one[0])[:count]
    return [chosen for _, chosen in best]
