"""Lemmas, the dictionary forms of words: the only module that uses simplemma.

simplemma looks words up in lists that come with it, and needs no context. So a word has one lemma,
and a word that it does not know is its own. So are all words of a language that it does not know.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

from nmt.data.composition import compose
from nmt.data.languages import primary_language
from nmt.data.words import MARKS
from nmt.errors import UsageError
from nmt.lexical.word_list import ListedWord, has_phrase

_RUN = rf"[^\W_]++(?>(?:[{MARKS}]++[^\W_]*+)*)"
WORD = re.compile(rf"{_RUN}(?>(?:[-'’·]{_RUN})*)")
"""Letters with their marks and digits, with single hyphens and apostrophes inside. In scripts
without spaces this is a whole clause."""

_CODES = {"bs": "hbs", "hr": "hbs", "sr": "hbs", "no": "nb"}  # what simplemma calls some languages


def is_installed() -> bool:
    return find_spec("simplemma") is not None


@cache
def has_lemmas(lang: str) -> bool:
    """Whether there are lemmas for a language; UsageError if the package is missing."""
    if not is_installed():
        raise UsageError("--terms needs simplemma; run `pip install simplemma`")
    from simplemma import lemmatize

    try:
        lemmatize("a", _code(lang))
    except ValueError:
        return False
    return True


def lemma(word: str, lang: str) -> str:
    """Return the lemma of a word, or the word itself in a language without lemmas."""
    if not has_lemmas(lang):
        return word
    from simplemma import lemmatize

    return lemmatize(word, _code(lang))


def lemmas_version() -> str:
    """What identifies the lemmas in `dataset.json`."""
    return f"simplemma {version('simplemma')}"


def _code(lang: str) -> str:
    primary = primary_language(lang)
    return _CODES.get(primary, primary)


class LineForms(NamedTuple):
    """The lemmas of a line's words, in lower case, to look for terms in any form."""

    lang: str
    lemmas: list[str]

    @classmethod
    def of(cls, line: str, lang: str) -> LineForms:
        """Read a line of a language."""
        return cls(lang, [lemma(word, lang).lower() for word in WORD.findall(compose(line))])

    def has(self, term: str) -> bool:
        """Whether the line has the words of a term, each in any form."""
        words = LineForms.of(term, self.lang).lemmas
        starts = range(len(self.lemmas) - len(words) + 1) if words else ()
        return any(self.lemmas[start : start + len(words)] == words for start in starts)


class TermUse(NamedTuple):
    """A term of a line, and whether the translation has it."""

    source: str  # as the file has it
    target: str  # the preferred one
    is_placed: bool  # any of its targets

    @classmethod
    def of(cls, term: ListedWord, text: str, lang: str | None = None) -> TermUse:
        """Look for a term in its line's translation, in any form if its language is given."""
        is_placed = any(has_phrase(text, target) for target in term.targets)
        if not is_placed and lang is not None:
            is_placed = any(map(LineForms.of(text, lang).has, term.targets))
        return cls(term.source, term.targets[0], is_placed)
