"""HTML entities and broken encodings: counted in every text, and repaired with `--fix`.

- `entities`: `&#39;` or `&eacute;` in place of a character, or `& quot ;` if a tokeniser cut it.
  Only those that end with a semicolon count, since `&copy=2` may stand in a URL. Crawls have text
  that was escaped twice (`&amp;#39;`), so they are resolved up to eight times. A line with both
  `<` and `&lt;` is about HTML, and stays as it is.
- `encoding`: UTF-8 that was read as another encoding (`fÃ¼r`).

Entities come first, since `f&Atilde;&frac14;r` is both. A repair makes no line end and no NUL.

`broken_rows` is a cheap test of our own, for every text. It knows letters and frequent signs in
UTF-8 that was read as another encoding. Such signs may be right, as in `PÅ”` or `„Ä“`. So a letter
of a Latin alphabet counts only beside one of a to z, and in other scripts only two in a row. What
words begin with somewhere, such as `Äş`, counts only inside of a word. The beginning of an emoji
counts only with its third byte, and not after a Cyrillic letter, because Serbian has `рџ`. The
controls U+0080 to U+009F count, too: they are windows-1252 that was read as Latin-1.

The library ftfy makes the repair, and we refuse two kinds of it. `fÃƒÂ ¼ r`, which was also cut
into words, would get a Tibetan digit: a lone character of another script. And `AMANHÃ»` is right,
but would get a small letter among capitals. ftfy leaves some lines that our test finds, such as
`fГјr`. We repair them ourselves if the whole line is UTF-8 in another encoding.
"""

from __future__ import annotations

import contextlib
import functools
import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html.entities import html5
from importlib import metadata
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from nmt.console import printable
from nmt.data.manifest import FlawRecord
from nmt.errors import UsageError
from nmt.prepare.block import Pairs, Rows, TextSide, Work
from nmt.prepare.characters import known_scripts, letters_of
from nmt.prepare.cleaning import ENCODING, ENTITIES, FLAWS

_WORTH_A_WARNING = 0.001
"""Share of lines. Clean text has up to 0.06 % with entities, as in "Q&amp;A"."""
_EXAMPLE_CHARACTERS = 30
_MOST_ESCAPES = 8
"""Times that text was escaped, one upon the other. Without a bound, `&amp;amp;amp;...` would take
the square of its length."""
_ENTITY = re.compile(
    r"&(#[0-9]{1,8}|#[xX][0-9A-Fa-f]{1,8}|[A-Za-z][A-Za-z0-9]*);"
    r"|& ?(# ?[0-9]{1,8}|(?:amp|apos|gt|lt|nbsp|quot)) ?;"
)
"""Also those that a tokeniser has cut, such as `& quot ;`, `& # 39 ;` and `&amp; quot ;`."""
_MOSES = {"bar": "|", "bra": "[", "ket": "]"}
"""The entities of old Moses tokenisers that HTML does not have."""
_LINE_ENDS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
"""They become spaces, so that a line stays one line."""

_CODECS = ("cp1252", "cp1250", "cp1251", "iso8859_2", "mac_roman", "cp437")
_LATIN = (
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
    "ĀāĂăĄąĆćČčĎďĐđĒēĖėĘęĚěĞğĢģĪīĮįİıĶķĹĺĻļĽľŁłŃńŅņŇňŌōŐőŒœŔŕŘřŚśŞşŠšŢţŤťŪūŮůŰűŲųŹźŻżŽž"
    "ƠơƯưȘșȚț" + "".join(map(chr, range(0x1EA0, 0x1EFA)))
)
_GREEK, _CYRILLIC, _HEBREW, _ARABIC = (
    "".join(map(chr, range(first, last + 1)))
    for first, last in ((0x391, 0x3CE), (0x410, 0x451), (0x5D0, 0x5EA), (0x621, 0x64A))
)
_WORDS_BEGIN = {"Äş", "Äž", "Äš", "Ăş"}
"""With these, words of Turkmen, Estonian and Romanian (Ăştia) begin."""
_LAST_ASCII, _LAST_C1 = 0x7F, 0x9F
_ODD_CASE = re.compile("(?<=[A-Z]{2})[à-öø-ÿ]|(?<=[A-Za-z])[À-ÖØ-Þ](?=[a-z])")
_EVERYWHERE = (
    *((0x00, 0x24F), (0x2B0, 0x36F), (0x1E00, 0x1EFF)),  # Latin letters, and accents
    *((0x2000, 0x2BFF), (0x3000, 0x303F), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF)),  # signs
    *((0xFEFF, 0xFEFF), (0xFFFD, 0xFFFD), (0x1F000, 0x1FFFF)),
)
"""The characters that text in any language may have."""


def _meaning(entity: re.Match[str]) -> str:
    """Return what an entity stands for; itself if it is none, such as the `&T;` of `AT&T;`."""
    name = entity[1] or entity[2].replace(" ", "")
    if name[0] == "#":
        text = html.unescape(f"&{name};")
    else:
        text = html5.get(f"{name};", _MOSES.get(name, entity[0]))
    return " " if text in _LINE_ENDS else text


def first_entity(line: str) -> str:
    """Return the first entity of a line; empty if there is none."""
    entities = (entity[0] for entity in _ENTITY.finditer(line) if _meaning(entity) != entity[0])
    return next(entities, "")


def without_entities(line: str) -> str:
    """Return a line with characters in place of their entities."""
    if "<" in line and "&lt;" in line:
        return line
    for _ in range(_MOST_ESCAPES):
        resolved = _ENTITY.sub(_meaning, line)
        if resolved == line:
            break
        line = resolved
    return line


def _entity_rows(side: TextSide) -> Rows:
    rows = side.rows_of(np.flatnonzero(side.codes == ord("&")))
    return np.array([row for row in rows.tolist() if first_entity(side.lines[row])], np.int64)


def _misread(text: str, codec: str) -> str:
    """Return text in UTF-8 as it looks in another encoding."""
    return "".join(_character(byte, codec) for byte in text.encode())


def _character(byte: int, codec: str) -> str:
    return bytes([byte]).decode(codec, "replace").replace("\ufffd", chr(byte))


def _one_of(texts: set[str]) -> str:
    """Return a pattern of these texts, with one alternative for all that differ in the end."""
    ends: dict[str, str] = {}
    for text in sorted(texts):
        ends[text[:-1]] = ends.get(text[:-1], "") + text[-1]
    alternatives = "|".join(f"{re.escape(start)}[{re.escape(end)}]" for start, end in ends.items())
    return f"(?:{alternatives})"


@functools.cache
def _encoding_test() -> tuple[re.Pattern[str], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
    """Return what recognises a broken encoding.

    Returns a pattern, whether each code point begins what is broken (0x110000,), and the first two
    code points of all that is broken, as one number, sorted.
    """
    beside_a_letter = {_misread(letter, codec) for letter in _LATIN for codec in _CODECS}
    in_a_row = {
        _misread(letter, codec)
        for letter in _GREEK + _CYRILLIC + _HEBREW + _ARABIC
        for codec in _CODECS
    }
    sure = {_misread(sign, codec) for sign in "€™\ufeff\ufffd" for codec in _CODECS}
    sure |= {_misread("’", codec)[:2] for codec in _CODECS[:3]}  # begins general punctuation
    emoji = {
        _misread("😀", codec)[:2] + _character(byte, codec)
        for codec in _CODECS[:3]
        for byte in range(0x80, 0xC0)
    }
    three = "".join(map(chr, range(0xE0, 0xEE)))  # begins Thai, Hindi, Chinese, Korean and so on
    then = "".join(_character(byte, "cp1252") for byte in range(0x80, 0xC0))

    starts = {text[:2] for text in beside_a_letter | in_a_row | sure | emoji}
    starts |= {first + second for first in three for second in then}
    starts |= {"Â" + chr(code) for code in range(0xA0, 0xC0)} | {"Ã ", "Ã\xa0", "Ă\xa0"}
    firsts = sorted({text[0] for text in starts} | set(map(chr, range(0x80, 0xA0))))
    kinds = (
        "[\x80-\x9f]",
        _one_of(sure),
        f"(?<=[a-z]){_one_of(beside_a_letter)}",
        f"{_one_of(beside_a_letter - _WORDS_BEGIN)}(?=[a-z])",
        f"(?<![\u0400-\u04ff]){_one_of(emoji)}",
        f"{_one_of(in_a_row)}{{2}}",
        f"(?:[{three}][{re.escape(then)}]{{2}}){{2}}",
        "(?<![A-ZÀ-Þ])Â[\xa0-\xbf]",  # signs such as © and °
        "(?<![A-ZÀ-Þ])[ÃĂ]\xa0|(?<![A-Za-zÀ-ÿ])Ã  ?(?=[a-z])|(?<=[a-z])Ã ",  # à
    )
    is_first = np.zeros(0x110000, np.bool_)
    is_first[list(map(ord, firsts))] = True
    numbers = [ord(text[0]) << 32 | ord(text[1]) for text in starts]
    return (
        re.compile(f"(?=[{re.escape(''.join(firsts))}])(?:{'|'.join(kinds)})"),
        is_first,
        np.array(sorted(numbers), np.uint64),
    )


def broken_rows(side: TextSide) -> Rows:
    """Return the lines of a side that have a broken encoding: (rows,)."""
    codes = side.codes
    if codes.dtype == np.uint8:  # ASCII
        return np.zeros(0, np.int64)
    pattern, is_first, starts = _encoding_test()
    places = np.flatnonzero(is_first.take(codes))
    if not len(places):
        return places
    numbers = codes[places].astype(np.uint64) << np.uint64(32)
    numbers |= np.append(codes, 0)[places + 1].astype(np.uint64)
    is_start = starts.take(np.searchsorted(starts, numbers), mode="clip") == numbers
    is_start |= codes[places] <= _LAST_C1
    rows = side.rows_of(places[is_start])
    broken = [row for row in rows.tolist() if pattern.search(side.lines[row])]
    return np.array(broken, np.int64)


def doubtful_rows(side: TextSide) -> Rows:
    """Return the other lines in which ftfy may find something: with two such signs in a row."""
    is_high = side.codes > _LAST_ASCII
    return side.rows_of(np.flatnonzero(is_high[:-1] & is_high[1:]))


def broken_word(line: str) -> str:
    """Return the first word of a line that has a broken encoding; empty if there is none."""
    match = _encoding_test()[0].search(line)
    if match is None:
        return ""
    before, after = line[: match.start()].split(" ")[-1], line[match.end() :].split(" ")[0]
    return before + match[0] + after


def ftfy_version() -> str:
    """Return the version of ftfy; UsageError if it is not installed."""
    if find_spec("ftfy") is None:
        raise UsageError("--fix encoding needs ftfy; run `pip install 'nmt-toolkit[fix]'`")
    return metadata.version("ftfy")


def fixed_encoding(line: str, lang: str) -> str:
    """Return a line with its encoding repaired, or as it is if that makes nothing of sense."""
    import ftfy

    fixed = ftfy.fix_encoding(line)
    if fixed != line and not _is_doubtful(fixed, line, lang):
        return fixed
    if broken_word(line):
        for fixed in _reread(line):
            if not (broken_word(fixed) or _is_doubtful(fixed, line, lang)):
                return fixed
    return line


def _reread(line: str) -> Iterator[str]:
    """Yield what a line is as UTF-8 for each encoding that makes it that."""
    for codec in _CODECS:
        byte_of = _bytes_of(codec)
        if all(character in byte_of for character in line):
            with contextlib.suppress(UnicodeDecodeError):
                yield bytes(byte_of[character] for character in line).decode()


@functools.cache
def _bytes_of(codec: str) -> dict[str, int]:
    """Return the byte of each character of an encoding."""
    return {_character(byte, codec): byte for byte in range(0x100)}


def _is_doubtful(fixed: str, line: str, lang: str) -> bool:
    """Return whether a repair makes nothing of sense."""
    known = _characters_of(lang)
    known_before = set(line)
    is_new = [character not in known_before for character in fixed]
    is_odd = [new and not known[ord(sign)] for new, sign in zip(is_new, fixed, strict=True)]
    beside = zip([False, *is_odd[:-1]], is_odd, [*is_odd[1:], False], strict=True)
    return (
        "\0" in fixed
        or any(odd and not (before or after) for before, odd, after in beside)
        or any(is_new[match.start()] for match in _ODD_CASE.finditer(fixed))
    )


@functools.cache
def _characters_of(lang: str) -> npt.NDArray[np.bool_]:
    """Return whether text in a language may have a code point: (0x110000,)."""
    known = np.zeros(0x110000, np.bool_)
    of_scripts = [ranges for script in known_scripts(lang) for ranges in letters_of(script)]
    for first, last in (*_EVERYWHERE, *of_scripts):
        known[first : last + 1] = True
    return known


def recorded_fixes(fix: Sequence[str]) -> list[str]:
    """Return what `dataset.json` records of --fix; UsageError if ftfy is missing."""
    versions = {ENCODING: f" by ftfy {ftfy_version()}"} if ENCODING in fix else {}
    return [kind + versions.get(kind, "") for kind in sorted(set(fix))]


def repair(work: Work, *, fix: Sequence[str]) -> None:
    """Count flaws, and repair those of some kinds: a step."""
    work.pairs, work.flaws = examine(work.pairs, fix)


def examine(pairs: Pairs, fix: Sequence[str]) -> tuple[Pairs, tuple[FlawRecord, ...]]:
    """Find the flaws of the pairs of a block, and repair those of some kinds.

    Returns the pairs, and how many lines have a flaw, by side and kind.
    """
    flaws, sides = [], []
    for name, side, lang in zip(("src", "tgt"), pairs.sides, pairs.block.langs, strict=True):
        for kind, (find, first_flaw) in _KINDS.items():
            rows = find(side).tolist()
            repaired = _repaired(kind, side, rows, lang) if kind in fix else {}
            rows = [
                row
                for row in sorted({*rows, *repaired})
                if pairs.block.line_number(row) not in pairs.block.missing
            ]
            if rows:
                line = side.lines[rows[0]]
                example = first_flaw(line) or _first_difference(line, repaired[rows[0]])
                number = pairs.block.line_number(rows[0])
                counts = len(rows), len(repaired)
                flaws.append(FlawRecord(kind, name, *counts, number, example[:_EXAMPLE_CHARACTERS]))
            if repaired:
                lines = [repaired.get(row, line) for row, line in enumerate(side.lines)]
                side = replace(side, lines=lines)
        sides.append(side)
    return replace(pairs, src=sides[0], tgt=sides[1]), tuple(flaws)


_KINDS: Mapping[str, tuple[Callable[[TextSide], Rows], Callable[[str], str]]] = {
    ENTITIES: (_entity_rows, first_entity),
    ENCODING: (broken_rows, broken_word),
}
"""What finds the lines with a kind of flaw, and the first flaw of a line."""


def _repaired(kind: str, side: TextSide, rows: Sequence[int], lang: str) -> dict[int, str]:
    """Return the lines that a repair changes, by their rows; it may find more than these rows."""
    if kind == ENTITIES:
        tried = {row: without_entities(side.lines[row]) for row in rows}
    else:
        more = doubtful_rows(side).tolist()
        tried = {row: fixed_encoding(side.lines[row], lang) for row in {*rows, *more}}
    return {row: line for row, line in tried.items() if line != side.lines[row]}


def _first_difference(line: str, other: str) -> str:
    """Return the first word of a line that another lacks at its place."""
    words = zip(line.split(" "), other.split(" "), strict=False)
    return next((word for word, now in words if word != now), line)


def joined_flaws(known: Sequence[FlawRecord], new: Sequence[FlawRecord]) -> list[FlawRecord]:
    """Return the flaws of a text of which a part was known, and the next part is new."""
    flaws = {(flaw.kind, flaw.side): flaw for flaw in known}
    for flaw in new:
        before = flaws.setdefault((flaw.kind, flaw.side), replace(flaw, lines=0, repaired=0))
        flaws[flaw.kind, flaw.side] = replace(
            before, lines=before.lines + flaw.lines, repaired=before.repaired + flaw.repaired
        )
    return list(flaws.values())


def is_frequent(flaw: FlawRecord, lines: int) -> bool:
    """Return whether so many of a text's lines have a flaw that it is worth a warning."""
    return flaw.lines >= _WORTH_A_WARNING * lines


def describe_flaw(flaw: FlawRecord, name: str, unit: str, *, lines: int, total: int) -> str:
    """Describe a flaw of a text, of whose lines so many were read."""
    first = "" if lines == total else "the first "
    return (
        f"{name}: {flaw.lines:,} of {first}{lines:,} {unit}s have {FLAWS[flaw.kind]}, such as "
        f"{printable(flaw.example)} in {unit} {flaw.first:,}"
    )
