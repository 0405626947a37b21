"""Lists of words and phrases, found in lines.

They are found as whole words, from left to right, the longest first, and none inside another. One
without capitals matches in any case: `apple` also finds `Apple` and `APPLE`. One with a capital
matches only as it is written, and comes before one without. Runs of white space count as one space,
and letters with accents are equal however they are encoded.

In scripts without spaces, a term is found wherever its characters stand. That holds for katakana,
too: of 83 terms inside of a longer run of it, 77 had their translation in the other language.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nmt.data.words import is_letter, is_wide, unit_pattern
from nmt.lexical.token_offsets import WORD_START

if TYPE_CHECKING:
    from nmt.data.vocabulary import Vocabulary

_OPENING = ("(", "、", '"')  # a word may follow without a space
_CLOSING = (".", ",", ")")  # and may stand behind it


class ListedWord(NamedTuple):
    """A word or phrase of a list, and how it may be translated."""

    source: str
    targets: tuple[str, ...] = ()  # the preferred one first


class FoundWord(NamedTuple):
    start: int  # in characters
    end: int
    word: ListedWord


class WordList:
    """Words and phrases, indexed by their first word."""

    def __init__(self, words: Iterable[ListedWord]) -> None:
        """Index words. Those with the same source become one."""
        by_key: dict[str, ListedWord] = {}
        sizes: dict[str, set[int]] = {}
        for word in words:
            units, spans = _units(word.source)
            key = _key(units, spans)
            if not has_capital(word.source):
                key, units = key.casefold(), [unit.casefold() for unit in units]
            known = by_key.get(key, ListedWord(word.source))
            targets = dict.fromkeys((*known.targets, *word.targets))
            by_key[key] = ListedWord(known.source, tuple(targets))
            sizes.setdefault(units[0], set()).add(len(units))
        self._by_key = by_key
        self._sizes = sizes  # how many units the words have that begin with a unit

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, line: str, protected: Sequence[tuple[int, int]] = ()) -> list[FoundWord]:
        """Return the words in a line, from left to right.

        protected: starts and ends of parts that stay as they are, in order. A word may contain one,
            but not be inside it, nor reach into it.
        """
        protected_ends = [end for _, end in protected]
        units, spans = _units(line)
        folded = [unit.casefold() for unit in units]
        words = []
        position = 0
        while position < len(units):
            word, size = self._longest(units, folded, spans, position)
            if word is not None:
                start, end = spans[position][0], spans[position + size - 1][1]
                near, far = (bisect_right(protected_ends, place) for place in (start, end))
                touched = protected[near : far + 1]
                if all(
                    first >= end or (start <= first and last <= end and last - first < end - start)
                    for first, last in touched
                ):
                    words.append(FoundWord(start, end, word))
            position += size
        return words

    def _longest(
        self, units: list[str], folded: list[str], spans: list[tuple[int, int]], position: int
    ) -> tuple[ListedWord | None, int]:
        """Return the longest word that begins with a unit of a line, and how many units it has."""
        sizes = {*self._sizes.get(units[position], ()), *self._sizes.get(folded[position], ())}
        for size in sorted(sizes, reverse=True):
            part = slice(position, position + size)
            if position + size <= len(units):
                key = _key(units[part], spans[part])
                word = self._by_key.get(key) if has_capital(key) else None
                word = word or self._by_key.get(key.casefold())
                if word is not None:
                    return word, size
        return None, 1


def has_phrase(text: str, phrase: str) -> bool:
    """Tell whether a text has a word or phrase, as whole words and in this case.

    It may be `capitalised` at the beginning, and after a sign, where a sentence may begin.
    """
    units, spans = _units(text)
    size = len(_units(phrase)[0])
    key, first_key = (_key(*_units(form)) for form in (phrase, capitalised(phrase)))
    for index in range(len(units) - size + 1):
        part = _key(units[index : index + size], spans[index : index + size])
        is_first = not index or not any(map(str.isalnum, units[index - 1]))
        if part == key or (is_first and part == first_key):
            first, end = spans[index][0], spans[index + size - 1][1]
            is_joined = _joins(text, first - 1, first) or _joins(text, end, end - 1)
            if not (is_joined and any(map(str.isalnum, phrase))):
                return True
    return False


def _joins(text: str, outer: int, inner: int) -> bool:
    """Tell whether a letter touches the sign at the edge of a word, as in `C++en` or `ein.NET`.

    The edge may be a letter: then it ends with a word, or is one of a script without spaces.
    """
    is_word = 0 <= outer < len(text) and is_letter(text[outer])
    return is_word and not (is_letter(text[inner]) or is_wide(text[inner]))


def capitalised(phrase: str) -> str:
    """Return a phrase as at the start of a sentence: with a capital, if its first word has none."""
    first_word = _units(phrase)[0][0]
    return phrase[0].title() + phrase[1:] if first_word.islower() else phrase


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
    """Tell whether a word matches only in its own case."""
    return text != text.lower()


def after_space(vocabulary: Vocabulary, text: str) -> tuple[int, ...]:
    """Return the tokens of a word or phrase inside a sentence, after a space."""
    return tuple(vocabulary.encode_text([text])[0])


def token_forms(vocabulary: Vocabulary, text: str) -> Iterator[tuple[int, ...]]:
    """Yield a phrase's tokens inside a sentence: after a space, and after a sign without one."""
    yield after_space(vocabulary, text)
    if vocabulary.moses is not None:  # all tokens have spaces between them
        return
    for sign in _OPENING:
        ids = vocabulary.encode_text([sign + text])[0]
        written = ""
        for count, token in enumerate(vocabulary.tokens(ids), start=1):
            written += token
            if written == WORD_START + sign:
                yield tuple(ids[count:])
                return


def forms_before_sign(vocabulary: Vocabulary, text: str) -> Iterator[tuple[int, ...]]:
    """Yield a phrase's tokens before a sign, if they differ from those before a space."""
    if not vocabulary.marks_word_ends or vocabulary.moses is not None:
        return
    for sign in _CLOSING:
        ids = vocabulary.encode_text([text + sign])[0]
        if vocabulary.tokens(ids)[-1] == sign:
            yield tuple(ids[:-1])
