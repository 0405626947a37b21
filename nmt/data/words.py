"""Words and signs of a text, in any script.

A unit is a word, a single sign, or a character of a script without spaces. Words take in combining
marks, so a word of Hindi is one unit. They end at apostrophes and hyphens: `l'eau` is three units.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

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
