"""Translation units of a TMX file, as translation memories write it.

The file is read as a stream, in constant memory. It must not declare entities: those would let a
file grow without bound, or read others.

Source: TMX 1.4b, https://www.gala-global.org/tmx-14b.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from nmt.data.corpus import Encoding, read_chunks
from nmt.data.languages import primary_language
from nmt.data.manifest import FileRecord
from nmt.errors import DataError
from nmt.prepare.readers.reader import Advance, record_file
from nmt.prepare.readers.table import Row, Table

_BYTES = Encoding.find("iso-8859-1")  # leaves bytes as they are: expat decodes them
_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements inside a segment whose content is formatting, not text."""
_LINE_END = re.compile(r"\s*[\r\n]+\s*")


@dataclass(frozen=True)
class TmxFile(Table):
    """A translation memory. A row is a translation unit, and is missing if it lacks a language."""

    prefix: str
    path: Path
    langs: tuple[str, str]
    encoding = Encoding.find("utf-8")
    columns = ()

    @property
    def sides(self) -> tuple[str, str]:
        return f"{self.path} ({self.langs[0]})", f"{self.path} ({self.langs[1]})"

    def record(self) -> FileRecord:
        return record_file(self.path)

    def rows(self, advance: Advance) -> Iterator[Row]:
        units = _Units(self.path)
        for chunk in read_chunks(
            self.path, _BYTES, watch=lambda content: advance(len(content)), any_bytes=True
        ):
            for unit in units.feed(chunk):
                yield self._row(unit)
        units.finish()

    def _row(self, unit: dict[str, str]) -> Row:
        src, tgt = (_of_language(unit, lang) for lang in self.langs)
        if src is None or tgt is None:
            listed = ", ".join(f"{lang}: {text}" for lang, text in unit.items())
            return Row(listed.encode(), b"", True)
        return Row(src.encode(), tgt.encode())


def _of_language(unit: dict[str, str], lang: str) -> str | None:
    """Return the text in a language: with the same code, or else the first of that language."""
    own = lang.replace("_", "-").lower()
    if own in unit:
        return unit[own]
    primary = primary_language(lang)
    return next((text for code, text in unit.items() if primary_language(code) == primary), None)


@dataclass
class _Units:
    """Takes the bytes of a file, and gives the units that are complete."""

    path: Path
    _found: list[dict[str, str]] = field(default_factory=list)
    _unit: dict[str, str] = field(default_factory=dict)
    _lang: str = ""
    _text: list[str] | None = None  # inside of a segment
    _codes: int = 0  # elements of formatting that are open
    _is_tmx: bool = False

    def __post_init__(self) -> None:
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_entity

    def feed(self, chunk: bytes) -> list[dict[str, str]]:
        """Return the units that these bytes complete, as texts by language."""
        self._parse(chunk, is_last=False)
        found, self._found = self._found, []
        return found

    def finish(self) -> None:
        """Check that the file is complete."""
        self._parse(b"", is_last=True)

    def _parse(self, chunk: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            what = expat.errors.messages.get(error.code, "damaged")
            raise DataError(
                f"{self.path} line {error.lineno:,}: not valid XML ({what}); export it again"
            ) from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._is_tmx:
            if name != "tmx":
                raise DataError(f"{self.path}: not TMX: its first element is <{name}>")
            self._is_tmx = True
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            lang = attributes.get("xml:lang") or attributes.get("lang") or ""
            self._lang = lang.replace("_", "-").lower()
        elif name == "seg":
            self._text, self._codes = [], 0
        elif self._text is not None and (self._codes or name in _CODES):
            self._codes += 1

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)

    def _end(self, name: str) -> None:
        if name == "tu":
            self._found.append(self._unit)
        elif name == "seg" and self._text is not None:
            text = _LINE_END.sub(" ", "".join(self._text)).strip()
            self._unit.setdefault(self._lang, text)
            self._text = None
        elif self._text is not None and self._codes:
            self._codes -= 1

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self.path}: uses the entity &{name};, which TMX does not need; replace it by its "
            "text"
        )
