"""Words and signs of a text, in any script.

A unit is a word, a single sign, or a character of a script without spaces. Words take in combining
marks, so a word of Hindi is one unit. They end at apostrophes and hyphens: `l'eau` is three units.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)


@cache
def unit_pattern() -> re.Pattern[str]:
    """Return what matches one unit. White space is between units."""
    marks = "".join(
        chr(code) for code in range(0x300, 0x11000) if unicodedata.category(chr(code))[0] == "M"
    )
    marks = re.escape(marks + "\u200c\u200d")
    wide = f"[{_WITHOUT_SPACES}]"
    return re.compile(rf"{wide}[{marks}]*|(?:(?!{wide})[\w{marks}])+|[^\w\s]")


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

    @classmethod
    def of(cls, tokens: Sequence[str]) -> WordEdges:
        """Look at the pieces of a vocabulary. Bytes of longer characters count as letters."""
        import numpy as np  # here, so that the options of commands are read without it

        begin = [is_letter(token[:1]) or bool(_BYTE.fullmatch(token)) for token in tokens]
        end = [is_letter(token[-1:]) or bool(_BYTE.fullmatch(token)) for token in tokens]
        wide = [is_wide(token[-1:]) for token in tokens]
        closed = [bool(token) and token[-1] in _CLOSING for token in tokens]
        follow = [not (letter or closing) for letter, closing in zip(end, closed, strict=True)]
        return cls(*map(np.array, (begin, end, wide, follow)))


_BYTE = re.compile("<0x[89A-F].>")
_CLOSING = frozenset(".,;:!?)]}»…%")
"""Signs that have a space behind them."""


@cache
def is_wide(character: str) -> bool:
    """Tell whether a character is one of a script without spaces."""
    return bool(re.fullmatch(f"[{_WITHOUT_SPACES}]", character))


def has_letters(text: str, kept: Iterable[tuple[int, int]] = ()) -> bool:
    """Tell whether a text has a letter, which is any character of a Unicode category L*.

    Digits, signs, emoji, lone combining marks, and numbers such as \u2163 are none.

    kept: starts and ends of parts that do not count.
    """
    last, others = 0, list[str]()
    for start, end in sorted(kept):
        others.append(text[last : max(last, start)])
        last = max(last, end)
    return any(map(str.isalpha, chain(*others, text[last:])))


@cache
def is_letter(character: str) -> bool:
    """Tell whether a character joins with letters next to it."""
    return len(unit_pattern().findall(f"a{character}a")) == 1 and character != ""
