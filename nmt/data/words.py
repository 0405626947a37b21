"""Letters, words and full stops of a text, in any script: all other modules ask this one.

A unit is a word, a single sign, or a character of a script without spaces. Words take in combining
marks, so a word of Hindi is one unit. They end at apostrophes and hyphens: `l'eau` is three units.

Python's `\\w` has letters, digits and the underscore, but no combining marks, such as the vowel
signs of Hindi or the accents of decomposed text. A pattern that asks for letters adds `MARKS`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AFTER_SPACE = re.compile(r"\S? ([^\x00-\u02ff])")
_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)


def _as_ranges(codes: Iterable[int]) -> str:
    """Return ascending code points as the inside of a regular expression's brackets."""
    ranges = list[list[int]]()
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_WITH_MARKS = (
    "0300-30FF A66F-ABFF FB1E-FB1E FE00-FE2F 10000-11FFF 13400-134FF 16000-16FFF 1B000-1EFFF "
    "E0100-E01EF"
)
"""All marks are in these. To ask Unicode's whole range would take 0.1 s."""


def _codes(ranges: str) -> Iterator[int]:
    """Yield the code points of ranges, each as Unicode writes it: first-last."""
    for first, last in (one.split("-") for one in ranges.split()):
        yield from range(int(first, 16), int(last, 16) + 1)


_JOINERS = "\u200c\u200d"

MARKS = _JOINERS + _as_ranges(
    code for code in _codes(_WITH_MARKS) if unicodedata.category(chr(code))[0] == "M"
)
"""What belongs to the letter before it, for the brackets of a pattern: combining marks, and the
joiners that Persian and Sinhala have inside words."""

LETTERS = rf"(?:[^\W\d_][{MARKS}]*+)"
"""A pattern of one letter with its marks. Repeat it for a word without digits."""

_MARK = re.compile(f"[{MARKS}]")


@cache
def unit_pattern() -> re.Pattern[str]:
    """Return what matches one unit. White space is between units."""
    wide = f"[{_WITHOUT_SPACES}]"
    return re.compile(rf"{wide}[{MARKS}]*|(?:(?!{wide})[\w{MARKS}])+|[^\w\s]")


@cache
def is_mark(character: str) -> bool:
    """Tell whether a character belongs to the letter before it."""
    return bool(_MARK.fullmatch(character))


def torn_mark(line: str) -> str:
    """Return the first mark after a space, with what is before; "" if there is none."""
    found = (match for match in _AFTER_SPACE.finditer(line) if is_mark(match[1]))
    return next((match[0] for match in found), "")


def is_in_word(character: str) -> bool:
    """Tell whether a character is a letter, a mark of one, or a digit."""
    return character.isalnum() or is_mark(character)


MODIFIERS = "\u02ec\u02ee\u0640\ua788" + "".join(map(chr, _codes("02B9-02C1 02C6-02D1 3031-3035")))
"""Modifier letters that scripts have in common.

For example the \u02bb of Hawaiian and Tongan, the \u02bc of Ukrainian, and Arabic's \u0640. Unicode
gives them the script Common, as it does to punctuation."""

# Unicode's Sentence_Terminal, without signs that only old manuscripts have.
STOPS = (
    ".!?\u2026\u203c\u203d\u2047\u2048\u2049\u2e2e\u2e3c\u2e53\u2e54\uff0e"
    "\u037e\u061d\u061e\u061f\u06d4"  # Greek, Arabic
)
"""Signs that end sentences if white space follows."""
WIDE_STOPS = (
    "\u3002\uff61\uff01\uff1f\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57"  # Chinese and Japanese
    "\u0964\u0965\ua8ce\ua8cf\uaaf0\uaaf1\uabeb\u1c7e\u1c7f\U00011141\U00011142\U00011143"  # India
    "\u104a\u104b\u17d4\u17d5\u1aa8\u1aa9\u1aaa\u1aab\uaa5d\uaa5e\uaa5f"  # South East Asia
    "\u1944\u1945\ua92f\ua4ff\u1735\u1736\u1b5a\u1b5b\u1b5e\u1b5f\u1b7d\u1b7e\ua9c8\ua9c9\u1c3b\u1c3c"
    "\u1362\u1367\u1368\u07f9\ua60e\ua60f\ua6f3\ua6f7"  # Africa
    "\u0589\u0700\u0701\u0702\u1803\u1809\u166e"  # Armenian, Syriac, Mongolian, Cree
)
"""Signs that end sentences even without white space."""
_TYPED_STOPS = {
    ";": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),  # Greek \u037e
    ":": re.compile("[\u0531-\u0588]"),  # Armenian \u0589
    "|": re.compile("[\u0900-\u0dff]"),  # \u0964 of Punjabi and its neighbours
    "::": re.compile("[\u1200-\u135a]"),  # Ethiopic \u1362, ...
    "\u1361\u1361": re.compile("[\u1200-\u135a]"),  # ... as two signs between words
}
"""How keyboards without a stop write it, and a letter of the script in which it is one."""
STOP_SIGNS = STOPS + WIDE_STOPS + ";:|\u1361"
INVISIBLE = (
    "\u200b\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
"""Signs for the direction of text, and spaces of no width. They may follow a stop."""
_QUOTES = " \"'”’“»›)]}" + INVISIBLE


def is_stop(text: str, start: int, end: int) -> bool:
    """Tell whether a run of `STOP_SIGNS` in a text ends a sentence, if what follows allows it.

    A `;` is a question mark after a Greek letter. Closing quotes may stand between them.
    """
    stops = text[start:end]
    if letter := _TYPED_STOPS.get(stops):
        return letter.match(text[max(0, start - 3) : start].rstrip(_QUOTES)[-1:]) is not None
    return stops[-1] not in ";:|\u1361"


def ends_with_stop(text: str) -> bool:
    """Tell whether the last characters of a text are stops."""
    start = len(text.rstrip(STOP_SIGNS))
    return start < len(text) and is_stop(text, start, len(text))


_WHITE = re.compile(r"\s+")


def on_one_line(text: str) -> str:
    """Return a text with a space in place of each run of white space that has a line end."""
    return _WHITE.sub(lambda run: " " if {"\n", "\r"} & set(run[0]) else run[0], text)


@dataclass(frozen=True, eq=False)
class WordEdges:
    """Which tokens of a vocabulary begin or end inside a word.

    Two tokens in a row are of one word if the first one ends and the second one begins inside it.
    For example, `▁Hund` ends inside a word, which ends there if `▁bellt` or `.` follows, but goes
    on with `e`. Scripts without spaces have no such words.
    """

    begin_inside: NDArray[np.bool_]  # (V,)
    end_inside: NDArray[np.bool_]  # (V,)
    end_wide: NDArray[np.bool_]  # (V,) with a letter of a script without spaces
    words_follow: NDArray[np.bool_]  # (V,) without a space: after a bracket, but not after a comma
    end_space: NDArray[np.bool_]  # (V,) with a space, so that what follows begins a word

    @classmethod
    def of_pieces(cls, tokens: Sequence[str]) -> WordEdges:
        """Look at the pieces of a vocabulary. Bytes of longer characters count as letters."""
        import numpy as np  # here, so that the options of commands are read without it

        begin = [is_letter(token[:1]) or bool(_BYTE.fullmatch(token)) for token in tokens]
        end = [is_letter(token[-1:]) or bool(_BYTE.fullmatch(token)) for token in tokens]
        wide = [is_wide(token[-1:]) for token in tokens]
        closed = [bool(token) and token[-1] in _CLOSING for token in tokens]
        follow = [not (letter or closing) for letter, closing in zip(end, closed, strict=True)]
        space = [token.endswith("\u2581") for token in tokens]
        return cls(*map(np.array, (begin, end, wide, follow, space)))


_BYTE = re.compile("<0x[89A-F].>")
_CLOSING = frozenset(".,;:!?)]}»…%")  # signs that have a space behind them


@cache
def is_wide(character: str) -> bool:
    """Tell whether a character is one of a script without spaces."""
    return bool(re.fullmatch(f"[{_WITHOUT_SPACES}]", character))


def has_letters(text: str, protected: Iterable[tuple[int, int]] = ()) -> bool:
    """Tell whether a text has a letter, which is any character of a Unicode category L*.

    Digits, signs, emoji, lone combining marks, and numbers such as \u2163 are none.

    protected: starts and ends of parts that do not count.
    """
    last, others = 0, list[str]()
    for start, end in sorted(protected):
        others.append(text[last : max(last, start)])
        last = max(last, end)
    return any(map(str.isalpha, chain(*others, text[last:])))


@cache
def is_letter(character: str) -> bool:
    """Tell whether a character joins with letters next to it."""
    return len(unit_pattern().findall(f"a{character}a")) == 1 and character != ""
