"""Sources that say how their terms are to be translated, for models that were trained to read them.

See `nmt.lexical.term_annotation`. Other models get terms by a search that forces them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nmt.data.vocabulary import Vocabulary
from nmt.lexical.glossary import Terms
from nmt.lexical.term_annotation import Annotation, annotate
from nmt.lexical.token_offsets import token_offsets
from nmt.search.engine import Ids, Source
from nmt.translate.segmentation import split_ids

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class TermSources:
    """Makes sources in which terms have their preferred translation."""

    terms: Terms
    vocabulary: Vocabulary
    """Of sources, with the markers of terms."""

    def segments(
        self,
        text: str,
        kept: Sequence[tuple[int, int]],
        ids: list[int],
        most: int,
        *,
        languages: tuple[str, str],
        separator: str,
    ) -> list[Source]:
        """Return the segments of a sentence.

        The sentence is cut as it would be without terms. Only if it has to be cut anyway are the
        segments shorter, at most by half, so that there is room for annotations. What does not fit
        is left out.

        Args:
            text: of the sentence.
            kept: parts of it that stay as they are; see `Terms.find`.
            ids: of the sentence.
            most: how many ids a segment may have.
            languages, separator: see `split_ids`.
        """
        vocabulary, places = self.vocabulary, self.terms.find(text, kept)
        wanted = [Annotation(place.start, place.end, place.term.targets[0]) for place in places]
        limit, spans = most, list[tuple[int, int]]()
        if places:
            spans = token_offsets(text, vocabulary.tokens(ids))
            if len(ids) > most:
                whole = annotate(vocabulary, ids, spans, wanted)
                limit = max(1, most // 2, most * len(ids) // len(whole.ids))
        segments = split_ids(vocabulary, ids, limit, languages=languages, separator=separator)
        if not places:
            return segments
        starts = [place.start for place in places]
        annotated, at = [], 0
        for segment in segments:
            own = spans[at : at + len(segment.ids)]
            at += len(segment.ids)
            first, end = (bisect_left(starts, offset) for offset in (own[0][0], own[-1][1]))
            made = annotate(vocabulary, segment.ids, own, wanted[first:end], most=most)
            begun = [place.term for place in places[first:end]]
            annotated.append(
                replace(
                    segment,
                    ids=tuple(made.ids),
                    plain=segment.ids,
                    owners=tuple(made.owners),
                    terms=tuple(dict.fromkeys(begun)),
                )
            )
        return annotated


def with_tag(source: Source, tag: Ids) -> Source:
    """Return a source that begins with a tag or a language token."""
    if source.plain:
        owners = (*range(len(tag)), *(len(tag) + owner for owner in source.owners))
        source = replace(source, plain=(*tag, *source.plain), owners=owners)
    return replace(source, ids=(*tag, *source.ids), added=len(tag))


def attention_to_plain(weights: Floats, source: Source) -> Floats:
    """Return attention (T, S) to a source as attention to its plain ids (T, P).

    A word that copies an annotation attends to it, so this counts for the term that it belongs to.
    """
    if not source.plain:
        return weights
    to_plain = np.zeros((len(weights), len(source.plain)), np.float32)  # (T, P)
    np.add.at(to_plain.T, np.array(source.owners), weights.T)
    return to_plain
