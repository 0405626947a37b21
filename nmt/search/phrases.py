"""Phrases that a translation must contain, and how far a hypothesis is with them.

A phrase may have several forms, such as inflected ones, of which one must be there. Its tokens are
in a row, and it ends where a word ends: `▁Hund` counts once a token follows that begins no further
part of the word. So a form whose tokens are all there still depends on the next token.

Each hypothesis is at a `Stage`. Those of a sentence form a graph, built as search reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from nmt.data.words import WordEdges

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Phrase:
    """The token sequences that a phrase may be. A translation must contain one of them."""

    forms: tuple[Ids, ...]
    first_forms: tuple[Ids, ...] = ()  # only at the start of the translation

    @property
    def most_tokens(self) -> int:
        """The length of the longest form."""
        return max(map(len, self.forms + self.first_forms))

    @property
    def fewest_tokens(self) -> int:
        """The length of the shortest form."""
        return min(map(len, self.forms + self.first_forms))

    @property
    def tokens(self) -> Ids:
        """The tokens of all forms."""
        return tuple(chain.from_iterable(self.forms + self.first_forms))


class Begun(NamedTuple):
    """A form of a phrase that a hypothesis ends with, as far as it has come."""

    phrase: int
    form: Ids
    size: int  # tokens of it so far; if all are there, the next token decides


class Stage:
    """How far hypotheses of a sentence are with its phrases."""

    def __init__(
        self,
        sentence: SentencePhrases,
        met: frozenset[int],
        begun: tuple[Begun, ...],
        *,
        is_first: bool,
        ends_inside: bool,
    ) -> None:
        """Describe a stage; see `SentencePhrases.stage`.

        met: numbers of the phrases that are there.
        begun: forms of others that are begun.
        is_first: whether there is no token yet.
        ends_inside: whether the last token ends inside a word.
        """
        self._sentence = sentence
        self._met = met
        self._begun = begun
        self._is_first = is_first
        self._ends_inside = ends_inside
        self._next: dict[tuple[int, bool, bool], Stage] = {}

    @cached_property
    def bank(self) -> int:
        """The number of tokens of phrases that are there. It has its maximum if all are."""
        most_tokens = self._sentence.most_tokens
        counts = dict.fromkeys(self._met, 0) | {begun.phrase: 0 for begun in self._begun}
        for phrase in self._met:
            counts[phrase] = most_tokens[phrase]
        for phrase, form, size in self._begun:
            own = most_tokens[phrase] if size == len(form) else size
            counts[phrase] = max(counts[phrase], own)
        return sum(counts.values())

    @cached_property
    def may_end(self) -> bool:
        """Whether all phrases are there."""
        return self.bank == self._sentence.all_tokens

    @cached_property
    def met(self) -> frozenset[int]:
        """The numbers of the phrases that are there if the translation ends here."""
        return self._met | {one.phrase for one in self._begun if one.size == len(one.form)}

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
        edges = (False, False), (True, False)
        return (self._after(-1, *edges[0]).bank, self._after(-1, *edges[1]).bank)

    def after(self, token: int) -> Stage:
        """Return the stage after a token."""
        edges = self._sentence.edges
        if edges is None:
            return self._after(token, False, False)
        return self._after(token, bool(edges.begin_inside[token]), bool(edges.end_inside[token]))

    def _after(self, token: int, begins_inside: bool, ends_inside: bool) -> Stage:
        key = (token if token in self.wanted else -1, begins_inside, ends_inside)
        known = self._next.get(key)
        if known is None:
            known = self._next[key] = self._make(*key)
        return known

    def _make(self, token: int, begins_inside: bool, ends_inside: bool) -> Stage:
        goes_on = self._ends_inside and begins_inside  # with a word
        met = self._met if goes_on else self.met
        begun = [
            Begun(phrase, form, size + 1)
            for phrase, form, size in self._begun
            if size < len(form) and form[size] == token
        ]
        if not goes_on:
            begun += [
                Begun(phrase, form, 1) for phrase, form in self._may_begin() if form[0] == token
            ]
        left = {one for one in begun if one.phrase not in met}
        return self._sentence.stage(
            met, tuple(sorted(left)), is_first=False, ends_inside=ends_inside
        )

    def _may_begin(self) -> Iterable[tuple[int, Ids]]:
        """Yield the phrases that are not there, each with the forms that may begin here."""
        edges = self._sentence.edges
        for number, phrase in enumerate(self._sentence.phrases):
            if number in self._met:
                continue
            for form in (*phrase.forms, *(phrase.first_forms if self._is_first else ())):
                if not (self._ends_inside and edges is not None and edges.begin_inside[form[0]]):
                    yield number, form


class SentencePhrases:
    """The phrases of a sentence, and the stages that its hypotheses have reached."""

    def __init__(self, phrases: Sequence[Phrase], edges: WordEdges | None = None) -> None:
        """Take the phrases; without edges, each token is a word."""
        self.phrases = phrases
        self.edges = edges
        self.most_tokens = [phrase.most_tokens for phrase in phrases]
        self.all_tokens = sum(self.most_tokens)
        self._stages: dict[tuple[object, ...], Stage] = {}

    def first(self) -> Stage:
        """Return the stage of a translation without tokens."""
        return self.stage(frozenset(), (), is_first=True, ends_inside=False)

    def stage(
        self,
        met: frozenset[int],
        begun: tuple[Begun, ...],
        *,
        is_first: bool,
        ends_inside: bool,
    ) -> Stage:
        """Return the only stage with these properties."""
        key = (met, begun, is_first, ends_inside)
        if key not in self._stages:
            self._stages[key] = Stage(self, met, begun, is_first=is_first, ends_inside=ends_inside)
        return self._stages[key]

    def met(self, ids: Sequence[int]) -> frozenset[int]:
        """Return the numbers of the phrases that a translation contains."""
        stage = self.first()
        for token in ids:
            stage = stage.after(token)
        return stage.met
