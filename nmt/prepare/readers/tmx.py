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
from nmt.data.languages import are_close, primary_language
from nmt.data.manifest import FileRecord
from nmt.errors import DataError
from nmt.prepare.readers.line_files import LONGEST_LINE
from nmt.prepare.readers.reader import Advance, record_file
from nmt.prepare.readers.table import Row, Table

_BYTES = Encoding.find("iso-8859-1")  # leaves bytes as they are: expat decodes them
_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements inside a segment whose content is formatting, not text."""
_LINE_END = re.compile(r"\s*[\r\n]+\s*")
_TUV_BYTES = 100  # that a text of a unit takes, however short


@dataclass(frozen=True)
class TmxFile(Table):
    """A translation memory. A row is a translation unit, and is missing if it lacks a language."""

    prefix: str
    path: Path
    langs: tuple[str, str]
    kept: str = ""
    """An attribute of `<tu>`, such as tuid, or the type of a `<prop>` in the unit."""
    encoding = Encoding.find("utf-8")
    columns = ()
    named = "languages"

    @property
    def sides(self) -> tuple[str, str]:
        return f"{self.path} ({self.langs[0]})", f"{self.path} ({self.langs[1]})"

    def record(self) -> FileRecord:
        return record_file(self.path)

    def rows(self, advance: Advance) -> Iterator[Row]:
        units = _Units(self.path, self.kept)
        for chunk in read_chunks(
            self.path, _BYTES, watch=lambda content: advance(len(content)), any_bytes=True
        ):
            for unit in units.feed(chunk):
                yield self._row(unit)
        units.finish()

    def _row(self, unit: _Unit) -> Row:
        src, tgt = (_of_language(unit.texts, lang) for lang in self.langs)
        if src is None or tgt is None:
            listed = _one_line(", ".join(f"{lang}: {text}" for lang, text in unit.texts.items()))
            # A memory may have many languages, and not all of them in each unit.
            return Row(listed.encode(), b"", True, is_of_others=len(unit.texts) > 1)
        return Row(src.encode(), tgt.encode(), provenance=unit.provenance.encode())


def _of_language(texts: dict[str, str], lang: str) -> str | None:
    """Return the text in a language: with the same code, or else the first of that language."""
    own = lang.replace("_", "-").lower()
    if own in texts:
        return texts[own]
    primary = primary_language(lang)
    same = (text for code, text in texts.items() if primary_language(code) == primary)
    close = (text for code, text in texts.items() if are_close(code, lang))
    return next(same, None) or next(close, None)


@dataclass
class _Unit:
    """A translation unit."""

    provenance: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    """By language."""


def _one_line(text: str) -> str:
    return _LINE_END.sub(" ", text).strip()


@dataclass
class _Units:
    """Takes the bytes of a file, and gives the units that are complete."""

    path: Path
    kept: str
    _found: list[_Unit] = field(default_factory=list)
    _unit: _Unit = field(default_factory=_Unit)
    _lang: str = ""
    _text: list[str] | None = None  # inside of a segment, or of a prop that is kept
    _codes: int = 0  # elements of formatting that are open
    _size: int = 0  # characters of the unit
    _is_tmx: bool = False

    def __post_init__(self) -> None:
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_entity

    def feed(self, chunk: bytes) -> list[_Unit]:
        """Return the units that these bytes complete."""
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
        except (LookupError, ValueError) as error:  # it names an encoding that Python cannot read
            raise DataError(f"{self.path}: {error}; export it in UTF-8") from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._is_tmx:
            if name != "tmx":
                raise DataError(f"{self.path}: not TMX: its first element is <{name}>")
            self._is_tmx = True
        if name == "tu":
            self._unit, self._size = _Unit(_one_line(attributes.get(self.kept, ""))), 0
        elif name == "tuv":
            lang = attributes.get("xml:lang") or attributes.get("lang") or ""
            self._lang = lang.replace("_", "-").lower()
            self._count(len(lang) + _TUV_BYTES)
        elif name == "seg" or (name == "prop" and attributes.get("type") == self.kept):
            self._text, self._codes = [], 0
        elif self._text is not None and (self._codes or name in _CODES):
            self._codes += 1

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._count(len(text))
            self._text.append(text)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > LONGEST_LINE:
            raise DataError(
                f"{self.path} line {self._parser.CurrentLineNumber:,}: a unit of more than "
                f"{LONGEST_LINE >> 20} MiB; use text with one sentence per unit"
            )

    def _end(self, name: str) -> None:
        if name == "tu":
            self._found.append(self._unit)
        elif name in ("seg", "prop") and self._text is not None:
            text = _one_line("".join(self._text))
            if name == "seg":
                self._unit.texts.setdefault(self._lang, text)
            else:
                self._unit.provenance = self._unit.provenance or text
            self._text = None
        elif self._text is not None and self._codes:
            self._codes -= 1

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self.path}: uses the entity &{name};, which TMX does not need; replace it by its "
            "text"
        )
