"""Unicode's composed form (NFC) as rules that SentencePiece compiles into a model.

A rule replaces a sequence of characters, and at each place the longest sequence counts. So a finite
number of rules cannot compose every text. There are rules for

- every character that NFC changes or composes, from each of its canonically equivalent spellings,
  for example four of `ậ`; Hangul syllables are among them;
- a letter with two marks of which one composes, such as `ẹ́`, in any order, if the other mark
  composes with some letter or is among `_BESIDE`.

Both sides of a rule are canonically equivalent, so text never becomes anything else. Text that no
rule fits, such as three marks that are not one character, stays as it is.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

NFC = "nfc"  # the name of these rules; SentencePiece has others

DECOMPOSED_REMEDY = (
    "the model knows only composed letters, unless it was trained on such text; compose them, for "
    "example with uconv -x nfc"
)
"""What a warning says to text that a model's vocabulary does not compose."""

_BESIDE = "".join(map(chr, (0x329, *range(0x5B0, 0x5BC), *range(0x64B, 0x653), 0x670)))
"""Marks that often stand between a letter and a mark that composes: the vertical line below of
Yoruba, and the vowels of Hebrew and Arabic."""


def compose(text: str) -> str:
    """Return text in NFC."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def compose_lines(lines: Sequence[str]) -> Sequence[str]:
    """Return lines in NFC; faster than one by one, since most text is in NFC."""
    return lines if is_composed("\n".join(lines)) else list(map(compose, lines))


def is_decomposed(text: str) -> bool:
    """Whether text has letters whose marks are characters of their own, but could be composed.

    NFC changes other characters, too, and even decomposes some, such as U+0958 of Hindi. Those do
    not count.
    """
    return not is_composed(text) and len(compose(text)) < len(text)


def is_composed(text: str) -> bool:
    return text.isascii() or unicodedata.is_normalized("NFC", text)


_END = 0x30000
"""No character from here on is changed by NFC; a search of all would take five times as long."""


@functools.cache
def composition_rules() -> Mapping[str, str]:
    """Return what each sequence of characters becomes, by the Unicode data of this Python."""
    spellings = dict[str, list[str]]()  # the characters of each decomposition
    for code in range(_END):
        decomposed = unicodedata.normalize("NFD", chr(code))
        if decomposed != chr(code):
            spellings.setdefault(decomposed, []).append(chr(code))
    rules = {
        text: composed
        for decomposed in spellings
        for composed in [unicodedata.normalize("NFC", decomposed)]
        for text in _equivalents(decomposed, spellings)
        if text != composed
    }
    letters = [text for text in spellings if len(text) == 2 and unicodedata.combining(text[1])]
    marks = sorted({text[1] for text in letters} | set(_BESIDE))
    for letter in letters:
        for mark in marks:
            if ord(mark) >> 8 == ord(letter[1]) >> 8:  # of the same scripts
                decomposed = unicodedata.normalize("NFD", letter + mark)
                composed = unicodedata.normalize("NFC", decomposed)
                for text in _equivalents(decomposed, spellings):
                    if text != composed and _by_shorter(text, rules) != composed:
                        rules[text] = composed
    return rules


def rules_as_tsv() -> str:
    """Return the rules in SentencePiece's form: code points, a tab, code points."""
    lines = (
        "\t".join(" ".join(f"{ord(character):X}" for character in side) for side in rule)
        for rule in sorted(composition_rules().items())
    )
    return "".join(f"{line}\n" for line in lines)


def _by_shorter(text: str, rules: Mapping[str, str]) -> str:
    """Return a letter with two marks as rules for its beginning leave it."""
    for size in (2, 1):
        if text[:size] in rules:
            return rules[text[:size]] + text[size:]
    return text


def _equivalents(decomposed: str, spellings: Mapping[str, list[str]]) -> set[str]:
    """Return all texts with this decomposition.

    `ậ` has the decomposition `a`, dot below, circumflex. The marks may be swapped, since their
    combining classes differ, and `ạ` or `â` may stand for two of the three characters.
    """
    texts, new = {decomposed}, [decomposed]
    while new:
        fresh = set(_steps(new.pop(), spellings)) - texts
        texts |= fresh
        new += fresh
    return texts


def _steps(text: str, spellings: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield what a text becomes if two marks are swapped, or a part of it is composed."""
    for index in range(len(text) - 1):
        first, second = map(unicodedata.combining, text[index : index + 2])
        if first and second and first != second:
            yield text[:index] + text[index + 1] + text[index] + text[index + 2 :]
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            for composed in spellings.get(text[start:end], ()):
                yield text[:start] + composed + text[end:]
