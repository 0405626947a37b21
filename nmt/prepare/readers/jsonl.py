"""Rows of JSON Lines, an object a line: `hub.jsonl:en,de`, or `hub.jsonl:translation.en,...`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.console import printable
from nmt.data.corpus import Encoding, read_chunks, split_lines
from nmt.data.manifest import FileRecord
from nmt.errors import DataError
from nmt.pipeline import prefetched
from nmt.prepare.readers.cells import one_line
from nmt.prepare.readers.columns import lacks_column, nested_columns
from nmt.prepare.readers.line_files import CHUNKS_AHEAD
from nmt.prepare.readers.reader import Advance, record_file
from nmt.prepare.readers.table import Row, Table, score_of
from nmt.prepare.text_names import file_and_columns

_SAMPLED = 100


@dataclass(frozen=True)
class JsonLines(Table):
    """A file of objects. A row lacks a side if its object lacks the key, or has null there."""

    prefix: str
    path: Path
    name: str
    """As the user knows it: `path` may be a copy of a URL."""
    columns: tuple[str, ...]
    scores: tuple[str, ...]
    kept: str
    read_as: Encoding
    """What the file is in; rows are in UTF-8."""
    encoding = Encoding.find("utf-8")

    @classmethod
    def find(
        cls,
        prefix: str,
        path: Path,
        columns: Sequence[str],
        scores: Sequence[str],
        kept: str,
        langs: tuple[str, str],
        encoding: Encoding,
    ) -> JsonLines:
        """Find the columns; DataError if the first lines are not JSON, or lack one.

        Args:
            prefix: the text as the user names it.
            path: of the file.
            columns: source and target; if there are none, those named like the languages, also
                inside the column `translation`.
            scores: columns of scores.
            kept: the column that is kept, of strings or whole numbers; may be empty.
            langs: source and target language.
            encoding: of the file.
        """
        name = file_and_columns(prefix)[0]
        pair = (columns[0], columns[1]) if columns else ("", "")
        found = cls(prefix, path, name, pair, tuple(scores), kept, encoding)
        names = dict[str, None]()  # a set in order
        for _, entry in islice(found._objects(lambda _: None), _SAMPLED):
            for key, inner in entry.items():
                names[key] = None
                if isinstance(inner, dict):
                    names |= dict.fromkeys(f"{key}.{one}" for one in inner)
        if not columns and names:
            found = replace(found, columns=nested_columns(name, list(names), langs))
        for column in (*found.columns, *scores, *([kept] if kept else [])):
            if names and column not in names:
                raise lacks_column(name, column, list(names))
        return found

    @property
    def sides(self) -> tuple[str, str]:
        src, tgt = self.columns
        return f"{self.name} column {src}", f"{self.name} column {tgt}"

    def record(self) -> FileRecord:
        found = record_file(self.path)
        return FileRecord(Path(self.name).name, found.size, found.sha256)

    def rows(self, advance: Advance) -> Iterator[Row]:
        for number, entry in self._objects(advance):
            src, tgt = (self._text(number, entry, column) for column in self.columns)
            scores = tuple(score_of(_cell(entry, column)) for column in self.scores)
            kept = self._text(number, entry, self.kept) if self.kept else None
            if src is None or tgt is None:
                shown = json.dumps(entry, ensure_ascii=False).encode(errors="replace")
                yield Row(shown, b"", True, scores)
            else:
                yield Row(src, tgt, False, scores, kept or b"")

    def _text(self, number: int, entry: dict[str, Any], column: str) -> bytes | None:
        cell = _cell(entry, column)
        if cell is None:
            return None
        if column == self.kept and isinstance(cell, int):
            return str(cell).encode()
        if not isinstance(cell, str):
            raise DataError(
                f"{self.name} line {number:,}: {column} is not a string; choose another"
            )
        return one_line(cell.encode(errors="surrogatepass"))

    def _objects(self, advance: Advance) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects with their line numbers. Bytes that are not valid stay so.

        Only blank lines may follow the last one.
        """
        chunks = read_chunks(self.path, self.read_as, watch=lambda raw: advance(len(raw)))
        codec, blank = self.read_as.line_codec, 0
        for number, line in enumerate(split_lines(prefetched(chunks, ahead=CHUNKS_AHEAD)), start=1):
            text = line.decode(codec, "surrogateescape")
            if not text.strip():
                blank = blank or number
                continue
            if blank:
                raise DataError(f"{self.name} line {blank:,}: blank; leave such lines out")
            try:
                entry = json.loads(text.removeprefix("\ufeff") if number == 1 else text)
            except (ValueError, RecursionError):
                entry = None
            if not isinstance(entry, dict):
                raise DataError(
                    f"{self.name} line {number:,}: not a JSON object: {printable(text[:60])!r}; "
                    "JSON Lines has one on each line"
                )
            yield number, entry


def _cell(entry: dict[str, Any], column: str) -> object:
    outer, _, inner = column.partition(".")
    nested = entry.get(outer)
    if inner and column not in entry and isinstance(nested, dict):
        return nested.get(inner)
    return entry.get(column)
