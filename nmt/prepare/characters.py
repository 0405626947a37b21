"""Character classes, as a table with one byte for each code point.

A lookup in numpy classifies a whole text at once. The bits say whether a character is white space,
a sign, a control character, a number, or a letter of a script that the language does not use.
Scripts are named by their ISO 15924 codes and recognised by Unicode block. `unicodedata` decides
which characters are letters.

`letters_by_script` looks closer, at single lines that may be in another script.
"""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

import numpy as np
import numpy.typing as npt

from nmt.data.composition import compose
from nmt.data.languages import scripts_of
from nmt.prepare.cleaning_options import WIDE_LETTER

Classes = npt.NDArray[np.uint8]

SPACE, SIGN, CONTROL, FOREIGN, NUMBER = 1, 2, 4, 8, 16
"""White space; visible but not a letter (digits, punctuation, symbols); a control character; a
letter of another script; a digit or another number. A character may have several of these bits."""

_TABLE_SIZE = 0x110000
LETTERS_END = 0x32400  # Unicode has no letters from here on
WIDE_SCRIPTS = ("Hani", "Kana", "Hang")
"""Those whose letters count as `WIDE_LETTER` letters of an alphabet."""

BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latn": ((0x41, 0x24F), (0x250, 0x2AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F),
              (0xA720, 0xA7FF), (0xAB30, 0xAB6F), (0xFB00, 0xFB06), (0xFF21, 0xFF5A)),
    "Grek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrl": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armn": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebr": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arab": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFE)),
    "Deva": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Beng": ((0x980, 0x9FF),),
    "Guru": ((0xA00, 0xA7F),),
    "Gujr": ((0xA80, 0xAFF),),
    "Orya": ((0xB00, 0xB7F),),
    "Taml": ((0xB80, 0xBFF),),
    "Telu": ((0xC00, 0xC7F),),
    "Knda": ((0xC80, 0xCFF),),
    "Mlym": ((0xD00, 0xD7F),),
    "Sinh": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Laoo": ((0xE80, 0xEFF),),
    "Tibt": ((0xF00, 0xFFF),),
    "Mymr": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Geor": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Ethi": ((0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Khmr": ((0x1780, 0x17FF),),
    "Hang": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "Kana": ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D), (0x1AFF0, 0x1B16F)),
    "Hani": ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
            (0x20000, 0x323AF)),
}  # fmt: skip
"""The first and last code points of a script's blocks."""

_PARTS = {"Hans": "Hani", "Hant": "Hani", "Jpan": "Hani Kana", "Kore": "Hang Hani"}
_PARTS |= {"Latf": "Latn", "Latg": "Latn", "Aran": "Arab"}
"""Codes of ISO 15924 that stand for several scripts, or for a style of one."""


def known_scripts(language: str) -> tuple[str, ...]:
    """Return the scripts of a language whose letters we know, of which there may be none."""
    scripts = (_PARTS.get(script, script).split() for script in scripts_of(language))
    return tuple(script for script in chain.from_iterable(scripts) if script in BLOCKS)


@functools.cache
def classes_for(language: str) -> Classes:
    """Return the bits of every code point in text of a language: (0x110000,)."""
    scripts = known_scripts(language)
    table = plain_classes()
    if not scripts:
        return table
    are_foreign = np.zeros(_TABLE_SIZE, np.bool_)
    for script in BLOCKS.keys() - set(scripts):
        for first, last in BLOCKS[script]:
            are_foreign[first : last + 1] = True
    return np.where(are_foreign & (table == 0), np.uint8(FOREIGN), table)


@functools.cache
def plain_classes() -> Classes:
    """Return the bits that are the same for every language: (0x110000,)."""
    table = np.full(_TABLE_SIZE, SIGN, np.uint8)
    for code in range(LETTERS_END):
        character = chr(code)
        if character.isspace():
            table[code] = SPACE
        elif (category := unicodedata.category(character)[0]) in "LM":
            # Marks belong to the letter before them.
            table[code] = 0
        elif category == "N":
            table[code] |= NUMBER
    for first, last in ((0x00, 0x08), (0x0A, 0x1F), (0x7F, 0x9F), (0xFFFD, 0xFFFD)):
        table[first : last + 1] |= CONTROL
    return table


def letters_by_script(line: str, beside: str, scripts: Sequence[str]) -> Counter[str]:
    """Count the letters of a line by their script, wide ones as `WIDE_LETTER`.

    Words of other scripts that also stand in the translation do not count, such as names of
    programs. They do if the line has no letter of its own scripts, since then it is a copy.

    beside: its translation; scripts: of its language.
    """
    words = list(_words(line))
    if any(script in scripts for script, _ in words):
        others = set(_words(beside))
        words = [
            (script, word)
            for script, word in words
            if script in scripts
            or not ((script, word) in others or (script in WIDE_SCRIPTS and word in beside))
        ]
    counts = Counter[str]()
    for script, word in words:
        counts[script] += len(word) * (WIDE_LETTER if script in WIDE_SCRIPTS else 1)
    return counts


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Yield the runs of letters of one script, and their script; "" if we do not know it."""
    for script, run in groupby(compose(text), _script_of):
        if script is not None:
            yield script, "".join(run).casefold()


@functools.lru_cache(1 << 16)
def _script_of(character: str) -> str | None:
    """Return the script of a letter; None if it is none."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    code = ord(character)
    blocks = ((script, block) for script, blocks in BLOCKS.items() for block in blocks)
    return next((script for script, (first, last) in blocks if first <= code <= last), "")
