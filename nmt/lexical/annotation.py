"""Term annotations: a source line that says how some of its words are to be translated.

    <term> dogs <as> Hund </term> bark.

A model that has been trained with such lines reads the wanted word and inflects it (Dinu et al.
2019, "Training Neural Machine Translation to Apply Terminology Constraints"; Bergmanis and Pinnis
2021, "Facilitating Terminology Translation with Target Lemma Annotations"). Both papers tell apart
what is source, term and translation by a second embedding of each token. Our models have no such
embedding, so three control pieces do it, which any architecture reads and no text contains. The
source words stay, because the model needs their number and their place, and alignments refer to
them. So without its annotations the line has the same tokens as ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nmt.data.vocabulary import Vocabulary


class Annotation(NamedTuple):
    """The words of a term in a line, and the translation that they are to have."""

    start: int  # characters of the line
    end: int
    target: str


class AnnotatedIds(NamedTuple):
    """The ids of a source with its annotations."""

    ids: list[int]
    owners: list[int]
    """For each id, the place among the source's own ids of what it belongs to: of an annotation,
    the term's last token."""
    used: list[int]  # which of the terms are annotated


def annotate(
    vocabulary: Vocabulary,
    ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    terms: Sequence[Annotation],
    *,
    most: float = math.inf,
) -> AnnotatedIds:
    """Return ids with the annotations of some terms.

    A term is left out if a part of it is not in these ids, if a term before it has taken
    one of its tokens, if the vocabulary does not know a character of its translation, or if the
    ids would become too many.

    vocabulary: with the markers.
    ids: of a line, or of a segment of it.
    offsets: where each of them begins and ends, in characters of the line.
    terms: of the line, in any order.
    most: how many ids there may be.
    DataError if the vocabulary has no markers.
    """
    from nmt.data.vocabulary import ANNOTATION, UNK_ID  # which loads SentencePiece

    begin, become, end = vocabulary.control_ids(ANNOTATION)
    parts = [[id_] for id_ in ids]
    size, taken, used = len(ids), set[int](), list[int]()
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    targets = vocabulary.encode_text([term.target for term in terms])
    for number, (term, target) in enumerate(zip(terms, targets, strict=True)):
        first = bisect_right(ends, term.start)
        last = bisect_left(starts, term.end, first)
        inside = [index for index in range(first, last) if starts[index] < ends[index]]
        is_whole = inside and starts[inside[0]] <= term.start and ends[inside[-1]] >= term.end
        fits = size + len(target) + len(ANNOTATION) <= most
        if not (is_whole and fits and target) or UNK_ID in target or taken & set(inside):
            continue
        taken.update(inside)
        size += len(target) + len(ANNOTATION)
        used.append(number)
        parts[inside[0]].insert(0, begin)
        parts[inside[-1]] += [become, *target, end]
    owners = [[index] * len(part) for index, part in enumerate(parts)]
    return AnnotatedIds(list(chain.from_iterable(parts)), list(chain.from_iterable(owners)), used)
