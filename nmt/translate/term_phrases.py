"""Terms of a line as phrases that search puts into its translation.

A target term is cut into tokens as a word inside a sentence. It may also follow an opening bracket
or the like, without a space. If its first word is in lower case, it may begin the translation with
a capital.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from nmt.data.vocabulary import UNK_ID, Vocabulary
from nmt.lexical.glossary import Term, Terms, capitalised
from nmt.lexical.token_offsets import token_offsets
from nmt.search.engine import Ids, Source
from nmt.search.phrases import Phrase

_SPACE = "\u2581"  # SentencePiece's mark for a space before a token
_OPENING = ("(", "、", '"')  # a word may follow without a space


class TermPhrases:
    """Finds the terms of lines, and makes phrases of them."""

    def __init__(
        self,
        terms: Terms,
        src_vocabulary: Vocabulary,
        vocabulary: Vocabulary,
        barred_ids: Sequence[int] = (),
        is_forbidden: Callable[[str], bool] | None = None,
    ) -> None:
        """Take terms, the vocabularies, and tokens and texts of targets that are never produced."""
        self._terms = terms
        self._src_vocabulary = src_vocabulary
        self._vocabulary = vocabulary
        self._barred = {UNK_ID, *barred_ids}
        self._is_forbidden = is_forbidden
        self._phrases: dict[Term, Phrase | None] = {}

    def added_to(
        self, segments: list[Source], text: str, kept: Sequence[tuple[int, int]]
    ) -> list[Source]:
        """Return the segments of a sentence with the terms that begin in them, each once.

        kept: parts of the text that stay as they are; see `Terms.find`.
        """
        places = self._terms.find(text, kept)
        if not places:
            return segments
        ends = [len(text)]
        if len(segments) > 1:
            ids = [id_ for segment in segments for id_ in segment.ids]
            spans = token_offsets(text, self._src_vocabulary.tokens(ids))
            sizes = accumulate(len(segment.ids) for segment in segments)
            ends = [spans[size - 1][1] for size in sizes]
        starts = [place.start for place in places]
        added = []
        for segment, (first, end) in zip(segments, pairwise([0, *ends]), strict=True):
            begun = places[bisect_left(starts, first) : bisect_left(starts, end)]
            terms = tuple(dict.fromkeys(place.term for place in begun))
            added.append(replace(segment, terms=terms, phrases=self._phrases_of(terms)))
        return added

    def _phrases_of(self, terms: Sequence[Term]) -> tuple[Phrase, ...]:
        """Return the phrases of terms, without those that the vocabulary cannot write."""
        for term in terms:
            if term not in self._phrases:
                self._phrases[term] = self._phrase(term)
        phrases = (self._phrases[term] for term in terms)
        return tuple(phrase for phrase in phrases if phrase is not None)

    def _phrase(self, term: Term) -> Phrase | None:
        targets = [
            target
            for target in term.targets
            if self._is_forbidden is None or not self._is_forbidden(target)
        ]
        forms, inner, starts = dict[Ids, None](), dict[Ids, None](), dict[Ids, None]()
        for target in targets:
            spaced, *others = forms_of(self._vocabulary, target)
            forms[spaced] = None
            is_word = any(map(str.isalnum, target))  # a sign such as ! may follow anything
            (inner if is_word else forms).update(dict.fromkeys(others))
            if capitalised(target) != target:
                starts[_after_space(self._vocabulary, capitalised(target))] = None
        usable_forms, usable_starts, usable_inner = (
            tuple(form for form in some if form and not self._barred.intersection(form))
            for some in (forms, starts, inner)
        )
        if not (usable_forms or usable_starts or usable_inner):
            return None
        is_word = any(map(str.isalnum, "".join(targets)))
        return Phrase(usable_forms, usable_starts, usable_inner, is_word)


def forms_of(vocabulary: Vocabulary, text: str) -> Iterator[Ids]:
    """Yield the tokens of words inside a sentence: after a space, and after a sign without one."""
    yield _after_space(vocabulary, text)
    if vocabulary.moses is not None:  # all tokens have spaces between them
        return
    for sign in _OPENING:
        ids = vocabulary.encode_text([sign + text])[0]
        written = ""
        for count, token in enumerate(vocabulary.tokens(ids), start=1):
            written += token
            if written == _SPACE + sign:
                yield tuple(ids[count:])
                return


def _after_space(vocabulary: Vocabulary, text: str) -> Ids:
    return tuple(vocabulary.encode_text([text])[0])
