"""HTML entities and broken encodings: counted in every text, and repaired with `--fix`.

- `entities`: `&#39;` or `&eacute;` in place of a character, or `& quot ;` if a tokeniser cut it.
  Only those that end with a semicolon count, since `&copy=2` may stand in a URL. Crawls have text
  that was escaped twice (`&amp;#39;`), so they are resolved until nothing changes. A line with both
  `<` and `&lt;` is about HTML, and stays as it is.
- `encoding`: UTF-8 that was read as another encoding, see `nmt.prepare.mojibake`.

Entities come first, since `f&Atilde;&frac14;r` is both. A repair makes no line end and no NUL.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html.entities import html5

import numpy as np

from nmt.console import printable
from nmt.data.manifest import FlawRecord
from nmt.prepare.cleaning import ENCODING, ENTITIES, FLAWS
from nmt.prepare.mojibake import (
    broken_rows,
    broken_word,
    doubtful_rows,
    fixed_encoding,
    ftfy_version,
)
from nmt.prepare.text import Block, Pairs, Rows, TextSide, Work

_WORTH_A_WARNING = 0.001
"""Share of lines. Clean text has up to 0.06 % with entities, as in "Q&amp;A"."""
_EXAMPLE_CHARACTERS = 30
_ENTITY = re.compile(
    r"&(#[0-9]{1,8}|#[xX][0-9A-Fa-f]{1,8}|[A-Za-z][A-Za-z0-9]*);"
    r"|& ?(# ?[0-9]{1,8}|(?:amp|apos|gt|lt|nbsp|quot)) ?;"
)
"""Also those that a tokeniser has cut, such as `& quot ;`, `& # 39 ;` and `&amp; quot ;`."""
_MOSES = {"bar": "|", "bra": "[", "ket": "]"}
"""The entities of old Moses tokenisers that HTML does not have."""
_LINE_ENDS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
"""They become spaces, so that a line stays one line."""


def _character(found: re.Match[str]) -> str:
    """Return what an entity stands for; itself if it is none, such as the `&T;` of `AT&T;`."""
    name = found[1] or found[2].replace(" ", "")
    if name[0] == "#":
        text = html.unescape(f"&{name};")
    else:
        text = html5.get(f"{name};", _MOSES.get(name, found[0]))
    return " " if text in _LINE_ENDS else text


def first_entity(line: str) -> str:
    """Return the first entity of a line; empty if there is none."""
    found = (one[0] for one in _ENTITY.finditer(line) if _character(one) != one[0])
    return next(found, "")


def without_entities(line: str) -> str:
    """Return a line with characters in place of their entities."""
    if "<" in line and "&lt;" in line:
        return line
    while (resolved := _ENTITY.sub(_character, line)) != line:  # each time it gets shorter
        line = resolved
    return line


def _entity_rows(side: TextSide) -> Rows:
    rows = side.rows_of(np.flatnonzero(side.codes == ord("&")))
    return np.array([row for row in rows.tolist() if first_entity(side.lines[row])], np.int64)


@dataclass(frozen=True)
class _Kind:
    """How a kind of flaw is found and repaired."""

    find: Callable[[TextSide], Rows]
    example: Callable[[str], str]
    """The first flaw of a line."""
    repair: Callable[[str, str], str]
    """Of a line in a language."""
    doubtful: Callable[[TextSide], Rows] | None = None
    """Other lines that the repair may change."""


_KINDS = {
    ENTITIES: _Kind(_entity_rows, first_entity, lambda line, _: without_entities(line)),
    ENCODING: _Kind(broken_rows, broken_word, fixed_encoding, doubtful_rows),
}


def recorded_fixes(fix: Sequence[str]) -> list[str]:
    """Return what `dataset.json` records of --fix; UsageError if ftfy is missing."""
    versions = {ENCODING: f" by ftfy {ftfy_version()}"} if ENCODING in fix else {}
    return [kind + versions.get(kind, "") for kind in sorted(set(fix))]


@dataclass(frozen=True)
class Repair:
    """The step that counts flaws, and repairs those of some kinds."""

    fix: Sequence[str]

    def __call__(self, work: Work) -> None:
        work.pairs, work.flaws = examine(work.pairs, self.fix)


def examine(pairs: Pairs, fix: Sequence[str]) -> tuple[Pairs, tuple[FlawRecord, ...]]:
    """Find the flaws of the pairs of a block, and repair those of some kinds.

    Returns:
        The pairs, and how many lines have a flaw, by side and kind.
    """
    flaws: list[FlawRecord] = []
    src, tgt = (
        _examine(pairs.block, side, name, lang, fix, flaws)
        for side, name, lang in zip(pairs.sides, ("src", "tgt"), pairs.block.langs, strict=True)
    )
    return replace(pairs, src=src, tgt=tgt), tuple(flaws)


def _examine(
    block: Block,
    side: TextSide,
    name: str,
    lang: str,
    fix: Sequence[str],
    flaws: list[FlawRecord],
) -> TextSide:
    """Return a side repaired, and add its flaws to a list."""
    for kind, how in _KINDS.items():
        rows, repaired = how.find(side).tolist(), dict[int, str]()
        if kind in fix:
            more = how.doubtful(side).tolist() if how.doubtful else []
            tried = {row: how.repair(side.lines[row], lang) for row in {*rows, *more}}
            repaired = {row: line for row, line in tried.items() if line != side.lines[row]}
            rows = sorted({*rows, *repaired})
        rows = [row for row in rows if block.line_number(row) not in block.missing]
        if rows:
            line = side.lines[rows[0]]
            example = how.example(line) or _first_difference(line, repaired[rows[0]])
            number = block.line_number(rows[0])
            flaws.append(
                FlawRecord(
                    kind, name, len(rows), len(repaired), number, example[:_EXAMPLE_CHARACTERS]
                )
            )
        if repaired:
            lines = [repaired.get(row, line) for row, line in enumerate(side.lines)]
            side = replace(side, lines=lines)
    return side


def _first_difference(line: str, other: str) -> str:
    """Return the first word of a line that another lacks at its place."""
    words = zip(line.split(" "), other.split(" "), strict=False)
    return next((word for word, now in words if word != now), line)


def joined_flaws(known: Sequence[FlawRecord], new: Sequence[FlawRecord]) -> list[FlawRecord]:
    """Return the flaws of a text of which a part was known, and the next part is new."""
    found = {(flaw.kind, flaw.side): flaw for flaw in known}
    for flaw in new:
        before = found.setdefault((flaw.kind, flaw.side), replace(flaw, lines=0, repaired=0))
        found[flaw.kind, flaw.side] = replace(
            before,
            lines=before.lines + flaw.lines,
            repaired=before.repaired + flaw.repaired,
        )
    return list(found.values())


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
