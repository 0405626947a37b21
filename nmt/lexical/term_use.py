"""Whether a translation has the terms of its line."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.lexical.lemmas import LineForms
from nmt.lexical.word_list import ListedWord, has_phrase


@dataclass(frozen=True)
class TermUse:
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
