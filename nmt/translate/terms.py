"""`nmt translate --terms`: sentences whose terms the model reads, or search puts in.

A model that was trained to read terms finds them in its sources (`nmt.lexical.annotation`). For
other models they are phrases that search puts into the translation. Such a phrase is cut into
tokens as a word inside a sentence. It may also follow an opening bracket or the like, without a
space. If its first word is in lower case, it may begin the translation with a capital.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise

from nmt.data.vocabulary import UNK_ID, Vocabulary
from nmt.lexical.annotation import Annotation, annotate
from nmt.lexical.lemmas import TermUse
from nmt.lexical.token_offsets import token_offsets
from nmt.lexical.word_list import (
    FoundWord,
    ListedWord,
    WordList,
    after_space,
    capitalised,
    forms_before_sign,
    token_forms,
)
from nmt.markup.breaks import MarkedLines
from nmt.search.phrases import Ids, Phrase
from nmt.translate.language_pair import LanguagePair
from nmt.translate.output import Translation
from nmt.translate.segment import Segment, Spans
from nmt.translate.segmentation import split_ids


@dataclass(frozen=True)
class ReadTerms:
    """Cuts sentences into segments in which terms have their preferred translation."""

    terms: WordList
    vocabulary: Vocabulary  # of sources, with the markers of terms
    languages: tuple[str, str]

    def __call__(
        self, text: str, protected: Spans, ids: list[int], most: int, separator: str
    ) -> list[Segment]:
        """Return the segments of a sentence, as `Cut` has it.

        The sentence is cut as it would be without terms. Only if it has to be cut anyway are the
        segments shorter, at most by half, so that there is room for annotations. What does not fit
        is left out.
        """
        vocabulary, places = self.vocabulary, self.terms.find(text, protected)
        if not places:
            return split_ids(vocabulary, ids, most, self.languages, separator)
        wanted = [Annotation(place.start, place.end, place.word.targets[0]) for place in places]
        limit, spans = most, token_offsets(text, vocabulary.tokens(ids))
        if len(ids) > most:
            whole = annotate(vocabulary, ids, spans, wanted)
            limit = max(1, most // 2, most * len(ids) // len(whole.ids))
        starts = [place.start for place in places]
        annotated, position = [], 0
        for segment in split_ids(vocabulary, ids, limit, self.languages, separator):
            plain = segment.source.ids
            own = spans[position : position + len(plain)]
            position += len(plain)
            first, end = (bisect_left(starts, offset) for offset in (own[0][0], own[-1][1]))
            made = annotate(vocabulary, plain, own, wanted[first:end], most=most)
            source = replace(segment.source, ids=tuple(made.ids))
            owners, listed = tuple(made.owners), _words(places[first:end])
            annotated.append(
                replace(segment, source=source, plain=plain, owners=owners, listed=listed)
            )
        return annotated


@dataclass(frozen=True)
class ForceTerms:
    """Cuts sentences into segments whose terms are phrases of their sources."""

    terms: WordList
    language_pair: LanguagePair
    barred_ids: Collection[int] = ()  # the tokens that never come
    phrases: dict[ListedWord, Phrase | None] = field(default_factory=dict)  # those that are known

    def __call__(
        self, text: str, protected: Spans, ids: list[int], most: int, separator: str
    ) -> list[Segment]:
        """Return the segments of a sentence, as `Cut` has it.

        Each has the terms that begin in it, each once, without those that the vocabulary cannot
        write.
        """
        pair = self.language_pair
        segments = split_ids(pair.src_vocabulary, ids, most, pair.languages, separator)
        places = self.terms.find(text, protected)
        if not places:
            return segments
        ends = [len(text)]
        if len(segments) > 1:
            spans = token_offsets(text, pair.src_vocabulary.tokens(ids))
            sizes = accumulate(len(segment.source.ids) for segment in segments)
            ends = [spans[size - 1][1] for size in sizes]
        starts = [place.start for place in places]
        forced = []
        for segment, (first, end) in zip(segments, pairwise([0, *ends]), strict=True):
            words = _words(places[bisect_left(starts, first) : bisect_left(starts, end)])
            phrases = tuple(phrase for word in words if (phrase := self._phrase(word)))
            source = replace(segment.source, phrases=phrases)
            forced.append(replace(segment, source=source, listed=words))
        return forced

    def _phrase(self, word: ListedWord) -> Phrase | None:
        if word not in self.phrases:
            self.phrases[word] = self._phrase_of(word)
        return self.phrases[word]

    def _phrase_of(self, word: ListedWord) -> Phrase | None:
        vocabulary, barred = self.language_pair.tgt_vocabulary, {UNK_ID, *self.barred_ids}
        forms, inner, starts = dict[Ids, None](), dict[Ids, None](), dict[Ids, None]()
        for target in word.targets:
            spaced, *others = token_forms(vocabulary, target)
            forms[spaced] = None
            is_word = any(map(str.isalnum, target))  # a sign such as ! may follow anything
            (inner if is_word else forms).update(dict.fromkeys(others))
            forms |= dict.fromkeys(forms_before_sign(vocabulary, target))
            if capitalised(target) != target:
                starts[after_space(vocabulary, capitalised(target))] = None
        usable_forms, usable_starts, usable_inner = (
            tuple(form for form in some if form and barred.isdisjoint(form))
            for some in (forms, starts, inner)
        )
        if not (usable_forms or usable_starts or usable_inner):
            return None
        is_word = any(map(str.isalnum, "".join(word.targets)))
        return Phrase(usable_forms, usable_starts, usable_inner, is_word)


def _words(places: Sequence[FoundWord]) -> tuple[ListedWord, ...]:
    return tuple(dict.fromkeys(place.word for place in places))


def note_terms(
    translations: Sequence[Translation],
    segments: Sequence[Sequence[Segment]],
    form: str | None,
    inflected_lang: str | None,
) -> list[Translation]:
    """Return translations that tell of each of the line's terms whether they have it.

    segments: of each line; form: of the tags in lines; inflected_lang: of translations, if any form
    of a term that lemmas know will do.
    """
    noted = []
    for translation, of_line in zip(translations, segments, strict=True):
        words = dict.fromkeys(chain.from_iterable(segment.listed for segment in of_line))
        if words and not translation.error:
            translation = _noted(translation, words, form, inflected_lang)
        noted.append(translation)
    return noted


def _noted(
    translation: Translation, words: Collection[ListedWord], form: str | None, lang: str | None
) -> Translation:
    text = translation.text
    if form is not None:
        text = MarkedLines.of(text, form).text
    terms = tuple(TermUse.of(word, text, lang) for word in words)
    others = tuple(_noted(other, words, form, lang) for other in translation.others)
    return replace(translation, terms=terms, others=others)
