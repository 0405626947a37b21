"""What each character is, as a table that whole texts are looked up in at once.

One byte for a code point: whether it is white space, no letter, a control, or a letter of a script
that the language is not written in. Scripts are told by Unicode block, to which `unicodedata` adds
what is a letter at all.
"""

from __future__ import annotations

import functools
import unicodedata

import numpy as np
import numpy.typing as npt

Classes = npt.NDArray[np.uint8]

SPACE, SIGN, CONTROL, FOREIGN = 1, 2, 4, 8
"""White space; visible and no letter (digits, punctuation, symbols); a control character; a letter
of another script. A character has some of these bits."""

_TABLE_SIZE = 0x110000
_LETTERS_END = 0x32400  # no letter has been given a code point above

_BLOCKS = {
    "Latin": ((0x41, 0x24F), (0x250, 0x2AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F),
              (0xA720, 0xA7FF), (0xAB30, 0xAB6F), (0xFB00, 0xFB06), (0xFF21, 0xFF5A)),
    "Greek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrillic": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armenian": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebrew": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arabic": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFE)),
    "Devanagari": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Bengali": ((0x980, 0x9FF),),
    "Gurmukhi": ((0xA00, 0xA7F),),
    "Gujarati": ((0xA80, 0xAFF),),
    "Oriya": ((0xB00, 0xB7F),),
    "Tamil": ((0xB80, 0xBFF),),
    "Telugu": ((0xC00, 0xC7F),),
    "Kannada": ((0xC80, 0xCFF),),
    "Malayalam": ((0xD00, 0xD7F),),
    "Sinhala": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Lao": ((0xE80, 0xEFF),),
    "Tibetan": ((0xF00, 0xFFF),),
    "Myanmar": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Georgian": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Ethiopic": ((0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Khmer": ((0x1780, 0x17FF),),
    "Hangul": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "Kana": ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9D), (0x1AFF0, 0x1B16F)),
    "Han": ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),
            (0x20000, 0x323AF)),
}  # fmt: skip

_LANGUAGES = {
    "Latin": "af az bs ca cs cy da de en es et eu fi fo fr fy ga gd gl ha hr ht hu id ig is it jv "
    "lb lt lv mg mi ms mt nb nl nn no nso oc pl pt ro sk sl so sq ss su sv sw tl tn tr ts uz vi xh "
    "yo zu",
    "Greek": "el",
    "Cyrillic": "be bg kk ky mk mn ru tg tt uk",
    "Armenian": "hy",
    "Hebrew": "he iw yi",
    "Arabic": "ar fa ps ug ur",
    "Devanagari": "hi mr ne sa",
    "Bengali": "as bn",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Tibetan": "bo dz",
    "Myanmar": "my",
    "Georgian": "ka",
    "Ethiopic": "am ti",
    "Khmer": "km",
    "Latin Cyrillic": "sr",
    "Hangul Han": "ko",
    "Han Kana": "ja",
    "Han": "zh",
}


def scripts_of(language: str) -> tuple[str, ...]:
    """Return the scripts that a language is written in: none where we do not know.

    The language is told by its ISO 639 code, which a country or a script may follow: pt_BR, zh-CN.
    """
    code = language.replace("_", "-").split("-")[0].lower()
    for scripts, codes in _LANGUAGES.items():
        if code in codes.split():
            return tuple(scripts.split())
    return ()


@functools.cache
def classes_for(language: str) -> Classes:
    """Return the bits of every code point as text of a language: (0x110000,)."""
    scripts = scripts_of(language)
    table = _plain_classes()
    if not scripts:
        return table
    letters = table == 0
    home = np.zeros(_TABLE_SIZE, np.bool_)
    abroad = np.zeros(_TABLE_SIZE, np.bool_)
    for script, ranges in _BLOCKS.items():
        for first, last in ranges:
            (home if script in scripts else abroad)[first : last + 1] = True
    return np.where(letters & abroad & ~home, np.uint8(FOREIGN), table)


@functools.cache
def _plain_classes() -> Classes:
    """Return the bits that no language decides."""
    table = np.full(_TABLE_SIZE, SIGN, np.uint8)
    for code in range(_LETTERS_END):
        character = chr(code)
        if character.isspace():
            table[code] = SPACE
        elif unicodedata.category(character)[0] in "LM":  # marks belong to the letter before them
            table[code] = 0
    for first, last in ((0x00, 0x08), (0x0A, 0x1F), (0x7F, 0x9F), (0xFFFD, 0xFFFD)):
        table[first : last + 1] |= CONTROL
    return table
