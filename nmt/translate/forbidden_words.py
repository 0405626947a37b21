"""Words that no translation may contain.

Search bars the token that would complete a word as the vocabulary cuts it: after a space or a sign,
with and without a capital, and in capitals. If a word is in a text all the same, through other
tokens, these are barred, too, and the line is searched again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import chain

from nmt.data.vocabulary import UNK_ID, Vocabulary
from nmt.lexical.word_list import WordList, has_capital, token_forms
from nmt.search.engine import Engine, Ids, SearchResult
from nmt.search.retry import search_guarded
from nmt.translate.steps import LinesUnderWay

_ROUNDS = 20
NOT_AVOIDED = "a forbidden word could not be avoided"


class ForbiddenWords:
    """Finds forbidden words in texts and in their tokens."""

    def __init__(self, words: WordList, vocabulary: Vocabulary) -> None:
        self._words = words
        self._vocabulary = vocabulary

    @cached_property
    def sequences(self) -> tuple[Ids, ...]:
        """The token sequences that the words are expected to have."""
        written = chain.from_iterable(map(_spellings, self._words.sources))
        forms = chain.from_iterable(token_forms(self._vocabulary, text) for text in written)
        return tuple(dict.fromkeys(form for form in forms if form and UNK_ID not in form))

    def are_in(self, text: str) -> bool:
        return bool(self._words.find(text))

    def written_in(self, hypotheses: SearchResult) -> set[Ids]:
        """Return the tokens that write a forbidden word in each translation that has one."""
        if isinstance(hypotheses, str):
            return set()
        texts = self._vocabulary.decode([hypothesis.ids for hypothesis in hypotheses])
        pairs = zip(hypotheses, texts, strict=True)
        return {self._tokens(hypothesis.ids) for hypothesis, text in pairs if self.are_in(text)}

    def _tokens(self, ids: Ids) -> Ids:
        """Return the fewest tokens of a translation, the first such, that write a word."""
        end = next(at for at in range(1, len(ids) + 1) if self._is_in(ids[:at]))
        start = next(at for at in reversed(range(end)) if self._is_in(ids[at:end]))
        return ids[start:end]

    def _is_in(self, ids: Ids) -> bool:
        return self.are_in(self._vocabulary.decode([ids])[0])


def avoid_forbidden(engine: Engine, words: ForbiddenWords, lines: LinesUnderWay) -> None:
    """Search again as long as a translation has a forbidden word; at last it is `NOT_AVOIDED`."""
    tried, results = [segment.source for segment in lines.searched], lines.results
    waiting = list(range(len(results)))
    for _ in range(_ROUNDS):
        barred = {number: words.written_in(results[number]) for number in waiting}
        waiting = [number for number in waiting if barred[number]]
        if not waiting:
            return
        for number in waiting:
            known = tried[number].barred
            tried[number] = replace(tried[number], barred=(*known, *barred[number]))
        sources = [tried[number] for number in waiting]
        again, guarded = search_guarded(engine, sources, on_step=lines.on_step)
        lines.guarded |= {waiting[place] for place in guarded}
        for number, hypotheses in zip(waiting, again, strict=True):
            results[number] = hypotheses
    for number in waiting:
        if words.written_in(results[number]):
            results[number] = NOT_AVOIDED


def _spellings(word: str) -> list[str]:
    """Return how a word may be written."""
    if has_capital(word):
        return [word]
    return [word, word[:1].title() + word[1:], word.title(), word.upper()]
