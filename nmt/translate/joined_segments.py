"""The translations of a line's segments, joined to one of the line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat

from nmt.lexical.token_offsets import WORD_START
from nmt.search.engine import Engine, Hypothesis
from nmt.translate.alignment import Alignment
from nmt.translate.copied_text import copy_translation
from nmt.translate.language_pair import LanguagePair
from nmt.translate.output import BLANK, Translation, failed
from nmt.translate.segment import Found, Segment
from nmt.translate.segmentation import join_segments

# Search never produces these, but a foreign vocabulary's rules for decoding might.
_LINE_BREAKERS = re.compile(r"[\n\r\0]")
# Nor these, but two bytes may be drawn that make one of the later ones.
_CONTROLS = re.compile(r"[\0-\x08\n-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class JoinSegments:
    """Makes the translations of lines, of what search has found for their segments."""

    engine: Engine  # has the attention for alignments
    language_pair: LanguagePair

    def __call__(
        self,
        lines: Sequence[Sequence[Segment]],
        found: Sequence[Sequence[Found | None]],
        *,
        is_aligned: bool,
    ) -> list[Translation]:
        """Return the translation of each line.

        lines: the segments of each; found: for each segment; None: it is copied.
        is_aligned: whether each translation gets its alignment.
        """
        searched = [
            (segment, of_segment)
            for segments, of_line in zip(lines, found, strict=True)
            for segment, of_segment in zip(segments, of_line, strict=True)
            if of_segment is not None
        ]
        translated = iter(self._translations(searched, is_aligned=is_aligned))
        return [
            self.joined(
                segments,
                [
                    self._copies(segment, is_aligned) if of_segment is None else next(translated)
                    for segment, of_segment in zip(segments, of_line, strict=True)
                ],
            )
            for segments, of_line in zip(lines, found, strict=True)
        ]

    def _copies(self, segment: Segment, is_aligned: bool) -> list[Translation]:
        """Return the copy of a segment, once, or as often as there are samples of others."""
        copied = copy_translation(segment, self.language_pair.src_vocabulary, alignment=is_aligned)
        options = self.engine.options
        return [copied] * (1 if options.sampling is None else options.n_best)

    def _translations(
        self, searched: Sequence[tuple[Segment, Found]], *, is_aligned: bool
    ) -> list[list[Translation] | str]:
        """Return each segment's translations, best first, or the reason why there are none."""
        pairs = [
            (segment, hypothesis)
            for segment, (result, _) in searched
            if not isinstance(result, str)
            for hypothesis in result
        ]
        # In one call: each call costs as much as decoding hundreds.
        vocabulary = self.language_pair.tgt_vocabulary
        texts = iter(vocabulary.decode([hypothesis.ids for _, hypothesis in pairs]))
        alignments = self._alignments(pairs) if is_aligned else repeat(None)
        return [
            result
            if isinstance(result, str)
            else [
                Translation(
                    next(texts),
                    hypothesis.score,
                    hypothesis.log_prob,
                    tuple(vocabulary.tokens(hypothesis.ids)),
                    hypothesis.token_log_probs[:-1],
                    1,
                    is_cut=segment.is_cut,
                    guarded=guarded,
                    alignment=next(alignments),
                )
                for hypothesis in result
            ]
            for segment, (result, guarded) in searched
        ]

    def _alignments(
        self, searched: Sequence[tuple[Segment, Hypothesis]]
    ) -> Iterator[Alignment | None]:
        """Return the alignment of each source's own tokens to those of its translation."""
        first = self.language_pair.tgt_vocabulary.first
        pairs = [
            (segment.source.ids, (*first, *hypothesis.before, *hypothesis.ids))
            for segment, hypothesis in searched
        ]
        attention = self.engine.attention(pairs)
        for (segment, hypothesis), weights in zip(searched, attention, strict=True):
            if weights is None:
                yield None
                continue
            begin = len(first) + len(hypothesis.before)
            plain = (segment.plain or segment.source.ids)[segment.added :]
            src_tokens = self.language_pair.src_vocabulary.tokens(plain)
            tgt_tokens = self.language_pair.tgt_vocabulary.tokens(hypothesis.ids)
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
        if errors := [part for part in translated if isinstance(part, str)]:
            return failed(errors[0], segments=len(segments))
        of_segments = [part for part in translated if not isinstance(part, str)]
        options = self.engine.options
        if options.sampling is not None:  # as many as every segment has
            joined = [join_parts(segments, parts) for parts in zip(*of_segments, strict=False)]
        else:
            chosen = best_sums(of_segments, 2 * options.n_best)
            joined = [join_parts(segments, parts) for parts in chosen]
            # Joined differently, segments can give the same text.
            by_text = {whole.text: whole for whole in reversed(joined)}
            joined = [whole for whole in joined if by_text[whole.text] is whole]
        best, *others = joined[: options.n_best]
        return replace(best, others=tuple(others)) if others else best


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
