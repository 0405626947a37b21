"""Phrases that a translation must contain, and how far a hypothesis is with them.

A phrase may have several forms, such as inflected ones, of which one must be there. Its tokens are
in a row, and it ends where a word ends: `▁Hund` counts once a token follows that begins no further
part of the word. So a form whose tokens are all there still depends on the next token. A form
without a space before it begins only where a word may, such as after a bracket.

Each hypothesis is at a `PhraseStage`. Those of a sentence form a graph, built as search reaches
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from nmt.data.words import WordEdges

Ids = tuple[int, ...]


class Phrase(NamedTuple):
    """The token sequences that a phrase may be. A translation must contain one of them."""

    forms: tuple[Ids, ...]
    first_forms: tuple[Ids, ...] = ()  # only at the start of the translation
    inner_forms: tuple[Ids, ...] = ()  # only where a word may begin without a space
    is_word: bool = False  # letters may not follow without a space, also if it ends with a sign

    @property
    def most_tokens(self) -> int:
        return max(map(len, self._all))

    @property
    def fewest_tokens(self) -> int:
        return min(map(len, self._all))

    @property
    def _all(self) -> tuple[Ids, ...]:
        return self.forms + self.first_forms + self.inner_forms


class WordEnd(NamedTuple):
    """How a hypothesis ends; see `WordEdges`. It begins as if after a space."""

    inside: bool = False
    wide: bool = False
    words_follow: bool = True
    space: bool = False


class Begun(NamedTuple):
    """A form of a phrase that a hypothesis ends with, as far as it has come."""

    phrase: int
    form: Ids
    size: int  # tokens of it so far; if all are there, the next token decides


class StageKey(NamedTuple):
    """What a stage is known by."""

    met: frozenset[int] = frozenset()  # numbers of the phrases that are there
    begun: tuple[Begun, ...] = ()  # forms of others that are begun
    end: WordEnd = WordEnd()  # of the last token
    is_first: bool = True  # whether there is no token yet


class PhraseStage:
    """How far hypotheses of a sentence are with its phrases."""

    def __init__(self, sentence: SentencePhrases, key: StageKey) -> None:
        """Describe a stage; see `SentencePhrases.stage`."""
        self._sentence = sentence
        self._met, self._begun, self._end, self._is_first = key
        self._next: dict[tuple[int, bool, WordEnd], PhraseStage] = {}

    @cached_property
    def bank(self) -> int:
        """The number of tokens of phrases that are there. It has its maximum if all are."""
        most_tokens = self._sentence.most_tokens
        counts = {phrase: most_tokens[phrase] for phrase in self._met}
        for phrase, form, size in self._begun:
            tokens = most_tokens[phrase] if size == len(form) else size
            counts[phrase] = max(counts.get(phrase, 0), tokens)
        return sum(counts.values())

    @cached_property
    def may_end(self) -> bool:
        """Whether all phrases are there."""
        return self.bank == self._sentence.all_tokens

    @cached_property
    def met(self) -> frozenset[int]:
        """The numbers of the phrases that are there if the translation ends here."""
        return self._met | {phrase for phrase, form, size in self._begun if size == len(form)}

    @cached_property
    def _met_before_letters(self) -> frozenset[int]:
        """The numbers of the phrases that are there if a letter follows without a space."""
        if self._end.inside:
            return self._met
        phrases = self._sentence.phrases
        joined = {number for number in self.met if phrases[number].is_word and not self._end.wide}
        return self._met | (self.met - joined)

    @cached_property
    def wanted(self) -> tuple[int, ...]:
        """The tokens that begin a form or continue one, ascending."""
        tokens = {form[size] for _, form, size in self._begun if size < len(form)}
        tokens |= {form[0] for _, form in self._may_begin()}
        return tuple(sorted(tokens))

    @cached_property
    def wanted_banks(self) -> tuple[int, ...]:
        """The bank after each of the wanted tokens."""
        return tuple(self.after(token).bank for token in self.wanted)

    @cached_property
    def other_banks(self) -> tuple[int, int]:
        """The bank after any other token, if it begins a word, and if it begins inside one."""
        inside = not self._end.space
        return (self._after(-1, False, WordEnd()).bank, self._after(-1, inside, WordEnd()).bank)

    def after(self, token: int) -> PhraseStage:
        if (edges := self._sentence.edges) is None:
            return self._after(token, False, WordEnd())
        ends = edges.end_inside, edges.end_wide, edges.words_follow, edges.end_space
        end = WordEnd(*(bool(array[token]) for array in ends))
        return self._after(token, bool(edges.begin_inside[token]) and not self._end.space, end)

    def _after(self, token: int, begins_inside: bool, end: WordEnd) -> PhraseStage:
        key = (token if token in self.wanted else -1, begins_inside, end)
        if key not in self._next:
            self._next[key] = self._make(*key)
        return self._next[key]

    def _make(self, token: int, begins_inside: bool, end: WordEnd) -> PhraseStage:
        met = self.met if not begins_inside else self._met_before_letters
        begun = [
            Begun(phrase, form, size + 1)
            for phrase, form, size in self._begun
            if size < len(form) and form[size] == token
        ]
        if not (self._end.inside and begins_inside):  # else it goes on with a word
            begun += [
                Begun(phrase, form, 1) for phrase, form in self._may_begin() if form[0] == token
            ]
        left = tuple(sorted({form for form in begun if form.phrase not in met}))
        return self._sentence.stage(StageKey(met, left, end, is_first=False))

    def _may_begin(self) -> Iterable[tuple[int, Ids]]:
        """Yield the phrases that are not there, each with the forms that may begin here."""
        edges = self._sentence.edges
        for number, phrase in enumerate(self._sentence.phrases):
            if number in self._met:
                continue
            first = phrase.first_forms if self._is_first else ()
            inner = phrase.inner_forms if self._end.words_follow else ()
            for form in (*phrase.forms, *first, *inner):
                if not (self._end.inside and edges is not None and edges.begin_inside[form[0]]):
                    yield number, form


class SentencePhrases:
    """The phrases of a sentence, and the stages that its hypotheses have reached."""

    def __init__(self, phrases: Sequence[Phrase], edges: WordEdges | None = None) -> None:
        """Take the phrases; without edges, each token is a word."""
        self.phrases = phrases
        self.edges = edges
        self.most_tokens = [phrase.most_tokens for phrase in phrases]
        self.all_tokens = sum(self.most_tokens)
        self._stages: dict[StageKey, PhraseStage] = {}

    def stage(self, key: StageKey) -> PhraseStage:
        """Return the only stage with this key."""
        if key not in self._stages:
            self._stages[key] = PhraseStage(self, key)
        return self._stages[key]

    def met(self, ids: Sequence[int]) -> frozenset[int]:
        """Return the numbers of the phrases that a translation contains."""
        stage = self.stage(StageKey())
        for token in ids:
            stage = stage.after(token)
        return stage.met
