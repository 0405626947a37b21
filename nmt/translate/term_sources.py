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
from nmt.lexical.term_annotation import Annotation, annotate
from nmt.lexical.terms import Terms
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
        vocabulary, found = self.vocabulary, self.terms.find(text, kept)
        wanted = [Annotation(one.start, one.end, one.term.targets[0]) for one in found]
        limit, spans = most, list[tuple[int, int]]()
        if found:
            spans = token_offsets(text, vocabulary.tokens(ids))
            if len(ids) > most:
                whole = annotate(vocabulary, ids, spans, wanted)
                limit = max(1, most // 2, most * len(ids) // len(whole.ids))
        segments = split_ids(vocabulary, ids, limit, languages=languages, separator=separator)
        if not found:
            return segments
        starts = [one.start for one in found]
        annotated, at = [], 0
        for segment in segments:
            own = spans[at : at + len(segment.ids)]
            at += len(segment.ids)
            first, end = (bisect_left(starts, place) for place in (own[0][0], own[-1][1]))
            made = annotate(vocabulary, segment.ids, own, wanted[first:end], most=most)
            begun = [one.term for one in found[first:end]]
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
    found = np.zeros((len(weights), len(source.plain)), np.float32)
    np.add.at(found.T, np.array(source.owners), weights.T)
    return found
