"""The translations of a line's segments, joined to one of the line."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from nmt.lexical.token_offsets import WORD_START
from nmt.search.engine import Engine, Hypothesis, SearchResult
from nmt.translate.alignment import Alignment
from nmt.translate.copied_text import copy_translation
from nmt.translate.language_pair import LanguagePair
from nmt.translate.output import BLANK, Translation
from nmt.translate.segment import Segment
from nmt.translate.segmentation import join_segments
from nmt.translate.steps import LinesUnderWay

# Search never produces these, but a foreign vocabulary's rules for decoding might.
_LINE_BREAKERS = re.compile(r"[\n\r\0]")
# Nor these, but two bytes may be drawn that make one of the later ones.
_CONTROLS = re.compile(r"[\0-\x08\n-\x1f\x7f-\x9f]")


class JoinSegments:
    """The step from the results of search to the translations of lines."""

    def __init__(
        self,
        engine: Engine,
        language_pair: LanguagePair,
        *,
        is_aligned: bool = False,
    ) -> None:
        """Set up the step. The engine has the attention for alignments.

        is_aligned: whether each translation gets its alignment.
        """
        self._engine = engine
        self._src_vocabulary = language_pair.src_vocabulary
        self._tgt_vocabulary = language_pair.tgt_vocabulary
        self._is_aligned = is_aligned

    def __call__(self, lines: LinesUnderWay) -> None:
        """Translate the lines that no step before has translated."""
        translated = iter(self.translations(lines.searched, lines.results, lines.guarded))
        for number, segments in enumerate(lines.segments):
            if number in lines.translations:
                continue
            parts = [
                self._copies(segment) if segment.copy else next(translated) for segment in segments
            ]
            lines.translations[number] = self.joined(segments, parts)

    def _copies(self, segment: Segment) -> list[Translation]:
        """Return the copy of a segment, once, or as often as there are samples of others."""
        copied = copy_translation(segment, self._src_vocabulary, alignment=self._is_aligned)
        options = self._engine.options
        return [copied] * (1 if options.sampling is None else options.n_best)

    def translations(
        self, segments: Sequence[Segment], results: Sequence[SearchResult], guarded: Container[int]
    ) -> list[list[Translation] | str]:
        """Return each segment's translations, best first, or the reason why there are none.

        guarded: the numbers of those that were searched twice.
        """
        pairs = [
            (segment, hypothesis)
            for segment, hypotheses in zip(segments, results, strict=True)
            if not isinstance(hypotheses, str)
            for hypothesis in hypotheses
        ]
        # In one call: each call costs as much as decoding hundreds.
        texts = self._tgt_vocabulary.decode([hypothesis.ids for _, hypothesis in pairs])
        each_text = iter(texts)
        alignments: Iterator[Alignment | None] = iter([None] * len(pairs))
        if self._is_aligned:
            alignments = self._alignments(pairs)
        return [
            hypotheses
            if isinstance(hypotheses, str)
            else [
                Translation(
                    next(each_text),
                    hypothesis.score,
                    hypothesis.log_prob,
                    tuple(self._tgt_vocabulary.tokens(hypothesis.ids)),
                    hypothesis.token_log_probs[:-1],
                    1,
                    is_cut=segment.is_cut,
                    guarded=number in guarded,
                    alignment=next(alignments),
                )
                for hypothesis in hypotheses
            ]
            for number, (segment, hypotheses) in enumerate(zip(segments, results, strict=True))
        ]

    def _alignments(
        self, searched: Sequence[tuple[Segment, Hypothesis]]
    ) -> Iterator[Alignment | None]:
        """Return the alignment of each source's own tokens to those of its translation."""
        first = self._tgt_vocabulary.first
        pairs = [
            (segment.source.ids, (*first, *hypothesis.before, *hypothesis.ids))
            for segment, hypothesis in searched
        ]
        for (segment, hypothesis), weights in zip(
            searched, self._engine.attention(pairs), strict=True
        ):
            if weights is None:
                yield None
                continue
            begin = len(first) + len(hypothesis.before)
            plain = (segment.plain or segment.source.ids)[segment.added :]
            src_tokens = self._src_vocabulary.tokens(plain)
            tgt_tokens = self._tgt_vocabulary.tokens(hypothesis.ids)
            to_plain = segment.attention_to_plain(weights[begin:])[:, segment.added :]
            yield Alignment.from_attention([to_plain], src_tokens, tgt_tokens)

    def joined(
        self, segments: Sequence[Segment], translated: Sequence[list[Translation] | str]
    ) -> Translation:
        """Join the translations of a line's segments to the line's own.

        For beam search, these are the combinations with the best sums of scores. For sampling, the
        n-th samples of all segments make the line's n-th: the best sums would not be random.
        """
        if not segments:
            return BLANK
        errors = [part for part in translated if isinstance(part, str)]
        if errors:
            return failed(segments, errors[0])
        of_segments = [part for part in translated if not isinstance(part, str)]
        options = self._engine.options
        if options.sampling is None:
            chosen = best_sums(of_segments, 2 * options.n_best)
        else:
            chosen = list(zip(*of_segments, strict=False))  # as many as every segment has
        joined = [join_parts(segments, parts) for parts in chosen]
        if options.sampling is None:
            # Joined differently, segments can give the same text.
            by_text = {whole.text: whole for whole in reversed(joined)}
            joined = [whole for whole in joined if by_text[whole.text] is whole]
        best, *others = joined[: options.n_best]
        return replace(best, others=tuple(others)) if others else best


def failed(segments: Sequence[Segment], error: str) -> Translation:
    """Return what stands for a line without a translation; error: why it has none."""
    return Translation("", -math.inf, -math.inf, (), (), len(segments), error=error)


def join_parts(segments: Sequence[Segment], parts: Sequence[Translation]) -> Translation:
    """Join a translation of each segment."""
    texts = [
        (_LINE_BREAKERS if part.copied or segment.source.prefix else _CONTROLS).sub(" ", part.text)
        for segment, part in zip(segments, parts, strict=True)
    ]
    text = texts[0]
    if len(parts) > 1 or not parts[0].copied:  # else it keeps its spaces
        text = join_segments(texts, [segment.separator for segment in segments])
    if len(parts) == 1:
        return parts[0] if text == parts[0].text else replace(parts[0], text=text)
    return Translation(
        text,
        sum(part.score for part in parts),
        sum(part.log_prob for part in parts),
        tuple(chain.from_iterable(part.tokens for part in parts)),
        tuple(chain.from_iterable(part.token_log_probs for part in parts)),
        len(parts),
        is_cut=any(part.is_cut for part in parts),
        guarded=any(part.guarded for part in parts),
        copied=all(part.copied for part in parts),
        alignment=_joined_alignment(segments, parts),
    )


def _joined_alignment(
    segments: Sequence[Segment], parts: Sequence[Translation]
) -> Alignment | None:
    alignments = [part.alignment for part in parts if part.alignment is not None]
    if len(alignments) < len(parts):
        return None
    tgt_tokens: list[str] = []
    joins_previous = False
    for segment, part in zip(segments, parts, strict=True):
        tokens = list(part.tokens)
        if joins_previous and tokens:  # the space that begins a segment is not written
            tokens[0] = tokens[0].removeprefix(WORD_START)
        tgt_tokens += tokens
        joins_previous = not segment.separator
    attention = list(chain.from_iterable(alignment.attention for alignment in alignments))
    src_tokens = list(chain.from_iterable(alignment.src_tokens for alignment in alignments))
    return Alignment.from_attention(attention, src_tokens, tgt_tokens)


def best_sums(
    of_segments: Sequence[Sequence[Translation]], count: int
) -> list[tuple[Translation, ...]]:
    """Return the `count` combinations of the segments' translations with the best sums of scores.

    Each segment's translations come best first, and so do the sums. Of equal sums, the first
    differing translation decides. There may be fewer combinations than `count`.
    """
    best: list[tuple[float, tuple[Translation, ...]]] = [(0.0, ())]
    for translations in of_segments:
        # In two sorted lists, the sum at ranks i and j (from 0) has (i + 1)(j + 1) - 1 sums that
        # are at least as high, so only few pairs can be among the best.
        sums = [
            (total + part.score, (*chosen, part))
            for rank, (total, chosen) in enumerate(best, start=1)
            for part in translations[: count // rank]
        ]
        best = sorted(sums, key=lambda summed: -summed[0])[:count]
    return [chosen for _, chosen in best]
