"""HTML entities, broken encodings and the like: counted in every text, and fixed with `--fix`.

- `entities`: `&#39;` or `&eacute;` in place of a character, or `& quot ;` if a tokeniser cut it.
  Only those that end with a semicolon count, since `&copy=2` may stand in a URL. Crawls have text
  that was escaped twice (`&amp;#39;`), so they are resolved up to eight times. A line with both
  `<` and `&lt;` is about HTML, and stays as it is.
- `encoding`: UTF-8 that was read as Latin-1 or windows-1252 (`fÃ¼r`), which is by far the most
  frequent, and windows-1252 that was read as Latin-1: the controls U+0080 to U+009F.

- `hunalign`: the ` ~~~ ` between sentences that the aligner joined.

Entities come first, since `f&Atilde;&frac14;r` is both. A repair makes no line end and no NUL.

The library ftfy repairs encodings. ftfy knows more of them, so with `--fix encoding` it sees all
lines with two characters beyond ASCII in a row.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from html.entities import html5
from importlib import metadata
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from nmt.console import printable
from nmt.data.manifest import FlawRecord
from nmt.errors import UsageError
from nmt.prepare.block import Pairs, Rows, TextSide
from nmt.prepare.cleaning_options import ENCODING, ENTITIES, FLAWS, HUNALIGN

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
"""An entity, also if a tokeniser has cut it, such as `& quot ;`, `& # 39 ;` and `&amp; quot ;`."""
_MOSES = {"bar": "|", "bra": "[", "ket": "]"}
"""The entities of old Moses tokenisers that HTML does not have."""
_LINE_ENDS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
"""What an entity may stand for that becomes a space, so that a line stays one line."""

_SECOND = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
"""What Latin-1 and windows-1252 make of the second and later bytes of a character in UTF-8."""
_BROKEN = re.compile(
    rf"""
      [\x80-\x9f]
    | (?<![A-ZÀ-Þ])[ÂÃ][{_SECOND}]  # of two bytes, as in fÃ¼r; but not in AMANHÃ»
    | [ÂÃ][{_SECOND}](?=[a-z])  # TÃ¼r
    | â[€‚„] | ðŸ  # begin quotes, signs such as € and ™, and emoji
    | (?:[Â-ô][{_SECOND}]{{1,3}}){{2}}  # two characters in a row, as in other alphabets
    """,
    re.VERBOSE,
)
_TILDES = " ~~~ "
"""What hunalign and LF Aligner write between sentences that they put into one line."""


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


def _rows_with(sign: str, is_flawed: Callable[[str], object], side: TextSide) -> Rows:
    """Return the lines of a side that have a sign, and are flawed: (rows,)."""
    rows = side.rows_of(np.flatnonzero(side.codes == ord(sign)))
    return np.array([row for row in rows.tolist() if is_flawed(side.lines[row])], np.int64)


@cache
def _is_second() -> npt.NDArray[np.bool_]:
    """Return whether each code point is one of `_SECOND`: (0x110000,)."""
    second = re.compile(f"[{_SECOND}]")
    found = np.zeros(0x110000, np.bool_)
    found[:0x2200] = [second.match(chr(code)) is not None for code in range(0x2200)]
    return found


def broken_rows(side: TextSide) -> Rows:
    """Return the lines of a side that have a broken encoding: (rows,)."""
    codes = side.codes
    if codes.dtype == np.uint8:  # ASCII
        return np.zeros(0, np.int64)
    is_second = _is_second().take(codes)
    may_be = (codes >= 0x80) & (codes <= 0x9F)
    may_be[:-1] |= (codes[:-1] >= 0xC2) & (codes[:-1] <= 0xF4) & is_second[1:]
    rows = side.rows_of(np.flatnonzero(may_be))
    return np.array([row for row in rows.tolist() if _BROKEN.search(side.lines[row])], np.int64)


def doubtful_rows(side: TextSide) -> Rows:
    """Return the other lines in which ftfy may find something: with two such signs in a row."""
    is_high = side.codes > 0x7F
    return side.rows_of(np.flatnonzero(is_high[:-1] & is_high[1:]))


def broken_word(line: str) -> str:
    """Return the first word of a line that has a broken encoding; empty if there is none."""
    match = _BROKEN.search(line)
    if match is None:
        return ""
    before, after = line[: match.start()].split(" ")[-1], line[match.end() :].split(" ")[0]
    return before + match[0] + after


def ftfy_version() -> str:
    """Return the version of ftfy; UsageError if it is not installed."""
    if find_spec("ftfy") is None:
        raise UsageError("--fix encoding needs ftfy; run `pip install ftfy`")
    return metadata.version("ftfy")


def fixed_encoding(line: str) -> str:
    """Return a line with its encoding repaired."""
    import ftfy

    fixed = str(ftfy.fix_encoding(line))
    return line if "\0" in fixed else fixed


def recorded_fixes(fix: Sequence[str]) -> list[str]:
    """Return what `dataset.json` records of --fix; UsageError if ftfy is missing."""
    versions = {ENCODING: f" by ftfy {ftfy_version()}"} if ENCODING in fix else {}
    return [kind + versions.get(kind, "") for kind in sorted(set(fix))]


def examine(pairs: Pairs, fix: Sequence[str]) -> tuple[Pairs, tuple[FlawRecord, ...]]:
    """Find the flaws of the pairs of a block, and repair those of some kinds.

    Returns the pairs, and how many lines have a flaw, by side and kind.
    """
    flaws, sides = [], []
    lacking = np.flatnonzero(pairs.lacking).tolist()
    for name, side in zip(("src", "tgt"), pairs.sides, strict=True):
        for kind, (find, first_flaw) in _KINDS.items():
            rows = find(side).tolist()
            repaired = _fixed_lines(kind, side, rows) if kind in fix else {}
            rows = sorted({*rows, *repaired}.difference(lacking))
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
    ENTITIES: (partial(_rows_with, "&", first_entity), first_entity),
    ENCODING: (broken_rows, broken_word),
    HUNALIGN: (partial(_rows_with, "~", lambda line: _TILDES in line), lambda _: _TILDES.strip()),
}
"""For each kind of flaw, what finds the lines that have it, and the first flaw of a line."""


def _fixed_lines(kind: str, side: TextSide, rows: Sequence[int]) -> dict[int, str]:
    """Return the lines that a repair changes, by their rows; it may find more than these rows."""
    if kind == ENTITIES:
        tried = {row: without_entities(side.lines[row]) for row in rows}
    elif kind == HUNALIGN:
        tried = {row: side.lines[row].replace(_TILDES, " ") for row in rows}
    else:
        more = doubtful_rows(side).tolist()
        tried = {row: fixed_encoding(side.lines[row]) for row in {*rows, *more}}
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
