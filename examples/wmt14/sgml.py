"""The SGML of WMT's test sets as lines of text.

It is no XML: `&` stands bare here and there, and other marks have attributes of many kinds. What
counts is that every sentence has a line of its own: `<seg id="1">Text</seg>`. Spaces become single
ones, as sacreBLEU makes them (its dataset/fake_sgml.py), and the entities of SGML the characters
that they stand for, which sacreBLEU leaves to its tokeniser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nmt.errors import DataError

_SEGMENT = re.compile(r"\s*<seg(?:\s[^>]*)?>(.*)</seg>\s*", re.IGNORECASE)
_BEGINS = re.compile(r"\s*<seg\b", re.IGNORECASE)
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def segments(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the text of each segment.

    Args:
        lines: of the file.
        name: the file's, for errors.

    Raises:
        DataError: a line is not UTF-8, or a segment is not on one line.
    """
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise DataError(f"{name}: line {number:,} is not valid UTF-8") from None
        if segment := _SEGMENT.fullmatch(text):
            # In one pass: &amp;lt; stands for the text &lt;
            plain = _ENTITY.sub(lambda entity: _CHARACTERS[entity[1]], segment[1])
            yield " ".join(plain.split())
        elif _BEGINS.match(text):
            raise DataError(f"{name}: line {number:,}: a segment does not end on its line")
