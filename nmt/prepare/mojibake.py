"""Broken encodings: UTF-8 that was read as another encoding (`fÃ¼r`), and how to repair it.

`broken_rows` is a cheap test of our own, for every text. It knows letters and frequent signs in
UTF-8 that was read as windows-1252, 1250 or 1251. Such signs may be right, as in `PÅ”` or `„Ä“`. So
a letter of a Latin alphabet counts only beside one of a to z, and in other scripts only two in a
row. The controls U+0080 to U+009F count, too: they are windows-1252 that was read as Latin-1.

The library ftfy makes the repair. It misreads text that was also cut into words: `fÃƒÂ ¼ r` would
get a Tibetan digit. So a repair is refused if it makes a lone character of another script.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from importlib import metadata
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from nmt.errors import UsageError
from nmt.prepare.characters import known_scripts, letters_of
from nmt.prepare.text import Rows, TextSide

_CODECS = ("cp1252", "cp1250", "cp1251")
_LATIN = (
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
    "ĀāĂăĄąĆćČčĎďĐđĒēĖėĘęĚěĞğĢģĪīĮįİıĶķĹĺĻļĽľŁłŃńŅņŇňŌōŐőŒœŔŕŘřŚśŞşŠšŢţŤťŪūŮůŰűŲųŹźŻżŽž"
    "ƠơƯưȘșȚț" + "".join(map(chr, range(0x1EA0, 0x1EFA)))
)
_GREEK, _CYRILLIC, _HEBREW, _ARABIC = (
    "".join(map(chr, range(first, last + 1)))
    for first, last in ((0x391, 0x3CE), (0x410, 0x451), (0x5D0, 0x5EA), (0x621, 0x64A))
)
_LAST_ASCII, _LAST_C1 = 0x7F, 0x9F
_EVERYWHERE = (
    *((0x00, 0x24F), (0x2B0, 0x36F), (0x1E00, 0x1EFF)),  # Latin letters, and accents
    *((0x2000, 0x2BFF), (0x3000, 0x303F), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF)),  # signs
    *((0xFEFF, 0xFEFF), (0xFFFD, 0xFFFD), (0x1F000, 0x1FFFF)),
)
"""The characters that text in any language may have."""


def _misread(text: str, codec: str) -> str:
    """Return text in UTF-8 as it looks in another encoding."""
    return "".join(_character(byte, codec) for byte in text.encode())


def _character(byte: int, codec: str) -> str:
    return bytes([byte]).decode(codec, "replace").replace("\ufffd", chr(byte))


def _one_of(texts: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, set(texts))))


_BESIDE_A_LETTER = {_misread(letter, codec) for letter in _LATIN for codec in _CODECS}
_IN_A_ROW = {
    _misread(letter, codec)
    for letter in _GREEK + _CYRILLIC + _HEBREW + _ARABIC
    for codec in _CODECS
}
_SURE = {_misread(sign, codec) for sign in "€™\ufeff\ufffd" for codec in _CODECS}
_SURE |= {_misread(sign, codec)[:2] for sign in "’😀" for codec in _CODECS}
"""Signs, and the beginning of general punctuation and of emoji."""
_FOLLOWING = "".join(_character(byte, "cp1252") for byte in range(0x80, 0xC0))
_FIRST_OF_THREE = "".join(map(chr, range(0xE0, 0xEE)))  # such as of Thai, Hindi, Chinese, Korean
_BROKEN = re.compile(
    "|".join(
        (
            "[\x80-\x9f]",
            _one_of(_SURE),
            f"(?<=[a-z])(?:{_one_of(_BESIDE_A_LETTER)})",
            f"(?:{_one_of(_BESIDE_A_LETTER)})(?=[a-z])",
            f"(?:{_one_of(_IN_A_ROW)}){{2}}",
            f"(?:[{_FIRST_OF_THREE}][{re.escape(_FOLLOWING)}]{{2}}){{2}}",
            "(?<![A-ZÀ-Þ])Â[\xa0-\xbf]",  # signs such as © and °
            "(?<![A-Za-zÀ-ÿ])Ã[ \xa0](?=[a-z])|(?<=[a-z])Ã[ \xa0]",  # à
        )
    )
)


@functools.cache
def _starts() -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
    """Return how what is broken starts.

    Returns:
        Whether a code point is the first: (0x110000,), and the first two as one number, sorted.
    """
    found = {text[:2] for text in _BESIDE_A_LETTER | _IN_A_ROW | _SURE}
    found |= {one + other for one in _FIRST_OF_THREE for other in _FOLLOWING}
    found |= {"Â" + chr(code) for code in range(0xA0, 0xC0)} | {"Ã ", "Ã\xa0"}
    is_first = np.zeros(0x110000, np.bool_)
    is_first[[ord(text[0]) for text in found]] = True
    is_first[_LAST_ASCII + 1 : _LAST_C1 + 1] = True
    numbers = [ord(text[0]) << 32 | ord(text[1]) for text in found]
    return is_first, np.array(sorted(numbers), np.uint64)


def broken_rows(side: TextSide) -> Rows:
    """Return the lines of a side that have a broken encoding: (found,)."""
    codes = side.codes
    if codes.dtype == np.uint8:  # ASCII
        return np.zeros(0, np.int64)
    is_first, starts = _starts()
    places = np.flatnonzero(is_first.take(codes))
    if not len(places):
        return places
    numbers = codes[places].astype(np.uint64) << np.uint64(32)
    numbers |= np.append(codes, 0)[places + 1].astype(np.uint64)
    is_start = starts.take(np.searchsorted(starts, numbers), mode="clip") == numbers
    is_start |= codes[places] <= _LAST_C1
    rows = side.rows_of(places[is_start])
    found = [row for row in rows.tolist() if _BROKEN.search(side.lines[row])]
    return np.array(found, np.int64)


def doubtful_rows(side: TextSide) -> Rows:
    """Return the other lines in which ftfy may find something: with two such signs in a row."""
    is_high = side.codes > _LAST_ASCII
    return side.rows_of(np.flatnonzero(is_high[:-1] & is_high[1:]))


def broken_word(line: str) -> str:
    """Return the first word of a line that has a broken encoding; empty if there is none."""
    found = _BROKEN.search(line)
    if found is None:
        return ""
    before, after = line[: found.start()].split(" ")[-1], line[found.end() :].split(" ")[0]
    return before + found[0] + after


def ftfy_version() -> str:
    """Return the version of ftfy; UsageError if it is not installed."""
    if find_spec("ftfy") is None:
        raise UsageError("--fix encoding needs ftfy; run `pip install nmt[fix]`")
    return metadata.version("ftfy")


def fixed_encoding(line: str, lang: str) -> str:
    """Return a line with its encoding repaired, or as it is if that makes nothing of sense."""
    import ftfy

    fixed = ftfy.fix_encoding(line)
    if fixed == line or "\0" in fixed or _has_lone_foreign(fixed, line, lang):
        return line
    return fixed


def _has_lone_foreign(fixed: str, line: str, lang: str) -> bool:
    """Return whether a new character of another script has none of its kind beside it."""
    known = _characters_of(lang)
    is_odd = [not known[ord(character)] and character not in line for character in fixed]
    beside = zip([False, *is_odd[:-1]], is_odd, [*is_odd[1:], False], strict=True)
    return any(odd and not (before or after) for before, odd, after in beside)


@functools.cache
def _characters_of(lang: str) -> npt.NDArray[np.bool_]:
    """Return whether text in a language may have a code point: (0x110000,)."""
    known = np.zeros(0x110000, np.bool_)
    own = [ranges for script in known_scripts(lang) for ranges in letters_of(script)]
    for first, last in (*_EVERYWHERE, *own):
        known[first : last + 1] = True
    return known
