"""Terms: how words of the source must be translated, read from a file and found in lines.

A file has a term on each line: `SOURCE<TAB>TARGET`. Further columns are other forms of the target,
such as inflected ones. If several lines have the same source term, their targets are alternatives,
in the order of the file. Blank lines, and lines that begin with `#`, are skipped.

Terms are found as whole words, from left to right, the longest first, and none inside another. A
term without capitals matches in any case: `apple` also finds `Apple` and `APPLE`. A term with a
capital matches only as it is written, and comes before one without. Runs of white space count as
one space, and letters with accents are equal however they are encoded.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.corpus import Encoding, read_chunks, split_lines
from nmt.data.words import is_letter, is_wide, unit_pattern
from nmt.errors import DataError

_UTF_8 = Encoding.find("utf-8")


@dataclass(frozen=True)
class Term:
    """A term of the source language and how it may be translated."""

    source: str
    targets: tuple[str, ...]  # the preferred one first


@dataclass(frozen=True)
class FoundTerm:
    """A term at a place in a line."""

    start: int  # in characters
    end: int
    term: Term


class Terms:
    """Terms, indexed by their first word."""

    def __init__(self, terms: Iterable[Term]) -> None:
        """Index terms. Those with the same source become one."""
        by_key: dict[str, Term] = {}
        sizes: dict[str, set[int]] = {}
        for term in terms:
            units, spans = _units(term.source)
            key = _key(units, spans)
            if not has_capital(term.source):
                key, units = key.casefold(), [unit.casefold() for unit in units]
            known = by_key.get(key, Term(term.source, ()))
            targets = dict.fromkeys((*known.targets, *term.targets))
            by_key[key] = Term(known.source, tuple(targets))
            sizes.setdefault(units[0], set()).add(len(units))
        self._by_key = by_key
        # How many units the terms have that begin with a unit, most first.
        self._sizes = {unit: sorted(counts, reverse=True) for unit, counts in sizes.items()}

    @classmethod
    def read(cls, path: Path) -> Terms:
        """Read a file in UTF-8, plain or compressed.

        Raises:
            DataError: if a line is not a term.
        """
        terms = []
        for number, text in _lines(path):
            source, *targets = (column.strip() for column in text.split("\t"))
            if not targets:
                raise DataError(
                    f"{path}: line {number:,} has no tab; write a term as SOURCE<TAB>TARGET"
                )
            if not source or not targets[0]:
                side = "target" if source else "source"
                raise DataError(f"{path}: line {number:,} has an empty {side} term; fill it in")
            terms.append(Term(source, tuple(filter(None, targets))))
        return cls(terms)

    @classmethod
    def read_words(cls, path: Path) -> Terms:
        """Read a file with a word or phrase on each line, which become terms without targets.

        Raises:
            DataError: if a line is not text, or has a tab.
        """
        words = []
        for number, text in _lines(path):
            if "\t" in text.strip():
                raise DataError(
                    f"{path}: line {number:,} has a tab; write one word or phrase on each line"
                )
            words.append(Term(text.strip(), ()))
        return cls(words)

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def sources(self) -> list[str]:
        """The source terms."""
        return [term.source for term in self._by_key.values()]

    def find(self, line: str, kept: Sequence[tuple[int, int]] = ()) -> list[FoundTerm]:
        """Return the terms in a line, from left to right.

        kept: starts and ends of parts that stay as they are, in order. A term may contain one, but
            not be inside it, nor reach into it.
        """
        kept_ends = [end for _, end in kept]
        units, spans = _units(line)
        folded = [unit.casefold() for unit in units]
        terms = []
        at = 0
        while at < len(units):
            term, size = self._longest(units, folded, spans, at)
            if term is not None:
                start, end = spans[at][0], spans[at + size - 1][1]
                touched = kept[bisect_right(kept_ends, start) : bisect_right(kept_ends, end) + 1]
                if all(
                    first >= end or (start <= first and last <= end and last - first < end - start)
                    for first, last in touched
                ):
                    terms.append(FoundTerm(start, end, term))
            at += size
        return terms

    def _longest(
        self,
        units: list[str],
        folded: list[str],
        spans: list[tuple[int, int]],
        at: int,
    ) -> tuple[Term | None, int]:
        """Return the longest term that begins with a unit of a line, and how many units it has."""
        exact, any_case = self._sizes.get(units[at], ()), self._sizes.get(folded[at], ())
        for size in sorted({*exact, *any_case}, reverse=True) if exact or any_case else ():
            part = slice(at, at + size)
            if at + size <= len(units):
                key = _key(units[part], spans[part])
                term = self._by_key.get(key) if has_capital(key) else None
                term = term or self._by_key.get(key.casefold())
                if term is not None:
                    return term, size
        return None, 1


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of the lines that are not blank and no comments."""
    lines = split_lines(read_chunks(path, _UTF_8, any_bytes=True))
    for number, line in enumerate(lines, start=1):
        text = _UTF_8.decode(line, number=number)
        if text is None or line.count(0) * 4 > len(line):  # UTF-16 without a mark is half NUL
            raise DataError(
                f"{path}: line {number:,} is not valid UTF-8; convert it, for example with "
                "iconv -f windows-1252 -t utf-8"
            )
        if text.strip() and not text.startswith("#"):
            yield number, text


def has_target(text: str, target: str) -> bool:
    """Tell whether a translation has a target term, as whole words and in this case.

    It may begin the translation `capitalised`.
    """
    units, spans = _units(text)
    size = len(_units(target)[0])
    key, first_key = (_key(*_units(form)) for form in (target, capitalised(target)))
    for at in range(len(units) - size + 1):
        part = _key(units[at : at + size], spans[at : at + size])
        if part == key or (not at and part == first_key):
            first, end = spans[at][0], spans[at + size - 1][1]
            is_joined = _joins(text, first - 1, first) or _joins(text, end, end - 1)
            if not (is_joined and any(map(str.isalnum, target))):
                return True
    return False


def _joins(text: str, outer: int, inner: int) -> bool:
    """Tell whether a letter touches the sign at the edge of a term, as in `C++en` or `ein.NET`.

    The edge may be a letter: then the term ends with a word, or is one of a script without spaces.
    """
    is_word = 0 <= outer < len(text) and is_letter(text[outer])
    return is_word and not (is_letter(text[inner]) or is_wide(text[inner]))


def capitalised(target: str) -> str:
    """Return a target term as at the start of a sentence: with a capital, if its word has none."""
    first_word = _units(target)[0][0]
    return target[0].title() + target[1:] if first_word.islower() else target


def _units(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the units of a text in Unicode's composed form, and where each is."""
    spans = [unit.span() for unit in unit_pattern().finditer(text)]
    units = [text[start:end] for start, end in spans]
    if not text.isascii():
        units = [unicodedata.normalize("NFC", unit) for unit in units]
    return units, spans


def _key(units: list[str], spans: list[tuple[int, int]]) -> str:
    """Return the units joined, with single spaces where the text has white space."""
    parts, end = [], spans[0][0]
    for unit, (start, next_end) in zip(units, spans, strict=True):
        parts += [" ", unit] if start > end else [unit]
        end = next_end
    return "".join(parts)


def has_capital(text: str) -> bool:
    """Tell whether a term matches only in its own case."""
    return text != text.lower()
