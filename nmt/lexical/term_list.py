"""Files of terms, and whether a translation has its terms.

A file has a term on each line: `SOURCE<TAB>TARGET`. Further columns are other forms of the target,
such as inflected ones. See `nmt.lexical.word_list` for how terms are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.errors import DataError
from nmt.lexical.lemmas import LineForms
from nmt.lexical.word_list import ListedWord, WordList, has_phrase, numbered_lines


def read_terms(path: Path) -> WordList:
    """Read a file of terms in UTF-8, plain or compressed; DataError if a line is not a term."""
    terms = []
    for number, text in numbered_lines(path):
        source, *targets = (column.strip() for column in text.split("\t"))
        if not targets:
            raise DataError(
                f"{path}: line {number:,} has no tab; write a term as SOURCE<TAB>TARGET"
            )
        if not source or not targets[0]:
            side = "target" if source else "source"
            raise DataError(f"{path}: line {number:,} has an empty {side} term; fill it in")
        terms.append(ListedWord(source, tuple(filter(None, targets))))
    return WordList(terms)


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
