"""Translation units of a TMX file, as translation memories write it.

The file is read as a stream, in constant memory. It must not declare entities: those would let a
file grow without bound, or read others. Inline codes are left out. Those that stand for a line
break or a tab, as the tools write them, leave a space.

Source: TMX 1.4b, https://www.gala-global.org/tmx-14b.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nmt.data.corpus import Encoding
from nmt.data.languages import serving_codes
from nmt.data.line_blocks import LONGEST_LINE, Advance
from nmt.data.words import on_one_line
from nmt.errors import DataError
from nmt.markup.xml_files import feed_xml, legal_xml, xml_parser
from nmt.tables.formats import FileRequest
from nmt.tables.table import Row, Table

_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements inside a segment whose content is formatting, not text."""
_BREAK_TYPE = re.compile(
    "(?:x-)?(?:lb|pb|cb|br|tab|line-?break|new-?line|form-?feed)", re.IGNORECASE
)
"""The type of a code that separates words: TMX has lb, pb and cb, and tools have more."""
_WHITE = r"(?:\s|\\[nrtfv]|&\#(?:9|1[0-3]|x0?[9a-d]);)+"
_BREAK = re.compile(
    rf"""
      \A{_WHITE}\Z  # by itself, such as \n of GlobalSight
    | \bval="{_WHITE}"  # <mq:ch val="&#10;" /> of memoQ
    | (?:<|&lt;)/?(?:\w+:)?(?:br|lb|tab|line-?break)[0-9]*(?![\w-])  # <w:tab/>; OmegaT has <br0/>
    | \\(?:line|page|par|tab)(?![a-z])  # RTF, of Trados
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The content of a code that separates words."""
_CODE_CHARACTERS = 1000  # of a code that are looked at
_LISTED = 20  # characters of each text of a unit that lacks a side
_TUV_BYTES = 100  # that a text of a unit takes, however short

_Unit = dict[str, str]  # the texts of a translation unit, by language


@dataclass(frozen=True)
class TmxFile(Table):
    """A translation memory. A row is a translation unit, and is missing if it lacks a language."""

    request: FileRequest
    encoding = Encoding.find("utf-8")
    columns = ()
    named = "languages"

    def rows(self, advance: Advance) -> Iterator[Row]:
        path, units = self.request.path, _Units(self.request.path)
        chunks = legal_xml(path, watch=lambda content: advance(len(content)))
        for _ in feed_xml(path, units.parser, chunks, remedy="export it again"):
            yield from map(self._row, units.take())

    def _row(self, texts: _Unit) -> Row:
        codes = _choose(tuple(texts), self.request.langs)
        if codes is None:
            # A memory may have many languages, and not all of them in each unit.
            return Row(_listed(texts), b"", True, is_of_others=len(texts) > 1)
        src, tgt = codes
        return Row(texts[src].encode(), texts[tgt].encode())


@lru_cache(4096)
def _choose(codes: tuple[str, ...], langs: tuple[str, str]) -> tuple[str, str] | None:
    """Return which codes of a unit serve best as source and target; None if one is not there.

    One in another script or region than was asked for does not serve. Codes that serve equally well
    are taken in their order, so that all units have the same one.
    """
    src, tgt = (serving_codes(codes, lang) for lang in langs)
    return (src[0], tgt[0]) if src and tgt else None


@lru_cache(4096)
def _is_break(code: str) -> bool:
    """Return whether a code with this content separates words."""
    return _BREAK.search(code) is not None


def _listed(texts: Mapping[str, str]) -> bytes:
    """Return the languages of a unit's texts with their starts."""
    starts = (
        f"{lang}: {text if len(text) <= _LISTED else text[: _LISTED - 3] + '...'}"
        for lang, text in texts.items()
    )
    return on_one_line(", ".join(starts)).strip().encode()


class _Units:
    """Takes the units out of a file, by the handlers of its parser."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: list[_Unit] = []
        self._unit: _Unit = {}
        self._lang = ""
        self._text: list[str] | None = None  # inside of a segment
        self._codes = 0  # elements of formatting that are open
        self._code: list[str] = []  # the content of the outermost one
        self._size = 0  # characters of the unit
        self._is_tmx = self._is_in_unit = False
        self.parser = xml_parser(self._start, self._end, self._characters, "utf-8")

    def take(self) -> list[_Unit]:
        """Return the units that were completed since the last time."""
        units, self._found = self._found, []
        return units

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._is_tmx and name != "tmx":
            raise DataError(f"{self._path}: not TMX: its first element is <{name}>")
        self._is_tmx = True
        if name == "tu":
            if self._is_in_unit:
                raise DataError(
                    f"{self._path} line {self.parser.CurrentLineNumber:,}: a <tu> begins inside of "
                    "a <tu>; export it again"
                )
            self._unit, self._size, self._is_in_unit = {}, 0, True
        elif name == "tuv":
            lang = attributes.get("xml:lang") or attributes.get("lang") or ""
            self._lang = lang.replace("_", "-")
            self._count(len(lang) + _TUV_BYTES)
        elif name == "seg":
            self._text, self._codes = [], 0
        elif self._text is not None and self._codes:
            self._codes += 1
        elif self._text is not None:
            kind = attributes.get("type") or attributes.get("ctype") or ""  # ctype: of XLIFF
            if name == "br" or _BREAK_TYPE.fullmatch(kind):
                self._text.append("\n")
            self._codes += name in _CODES

    def _characters(self, text: str) -> None:
        if self._text is not None and self._codes < 2:
            self._count(len(text))
            (self._code if self._codes else self._text).append(text)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > LONGEST_LINE:
            raise DataError(
                f"{self._path} line {self.parser.CurrentLineNumber:,}: a unit of more than "
                f"{LONGEST_LINE >> 20} MiB; use text with one sentence per unit"
            )

    def _end(self, name: str) -> None:
        if name == "tu":
            self._found.append(self._unit)
            self._is_in_unit = False
        elif name == "seg" and self._text is not None:
            self._unit.setdefault(self._lang, on_one_line("".join(self._text)).strip())
            self._text = None
        elif self._text is not None and self._codes:
            self._codes -= 1
            if not self._codes:
                if self._code and _is_break("".join(self._code)[:_CODE_CHARACTERS]):
                    self._text.append("\n")
                self._code.clear()
