"""Rows of JSON Lines, an object a line: `hub.jsonl:en,de`, or `hub.jsonl:translation.en,...`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from nmt.console import printable
from nmt.data.corpus import Encoding, read_chunks, split_lines
from nmt.data.line_blocks import CHUNKS_AHEAD, Advance
from nmt.errors import DataError
from nmt.system.files import parse_json
from nmt.system.prefetch import prefetched
from nmt.tables.cells import one_line
from nmt.tables.columns import nested_columns
from nmt.tables.formats import FileRequest
from nmt.tables.table import Row, Table

_SAMPLED = 100


@dataclass(frozen=True)
class JsonLines(Table):
    """A file of objects. A row lacks a side if its object lacks the key, or has null there."""

    request: FileRequest
    columns: tuple[str, ...]
    encoding = Encoding.find("utf-8")  # of rows, whatever the file is in

    @classmethod
    def find(cls, request: FileRequest) -> JsonLines:
        """Find the columns; DataError if the first lines are not JSON, or lack one.

        Without columns, those named like the languages are taken, also inside of `translation`.
        """
        table = cls(request, request.columns or ("", ""))
        names = dict[str, None]()  # a set in order
        for _, entry in islice(table._objects(lambda _: None), _SAMPLED):
            for key, inner in entry.items():
                names[key] = None
                if isinstance(inner, dict):
                    names |= dict.fromkeys(f"{key}.{field}" for field in inner)
        if names:
            table = replace(table, columns=nested_columns(request, request.name, list(names)))
        return table

    def rows(self, advance: Advance) -> Iterator[Row]:
        for number, entry in self._objects(advance):
            src, tgt = (self._text(number, entry, column) for column in self.columns)
            if src is None or tgt is None:
                shown = json.dumps(entry, ensure_ascii=False).encode(errors="replace")
                yield Row(shown, b"", True)
            else:
                yield Row(src, tgt)

    def _text(self, number: int, entry: dict[str, Any], column: str) -> bytes | None:
        cell = _cell(entry, column)
        if not isinstance(cell, str | None):
            where = f"{self.request.name} line {number:,}"
            raise DataError(f"{where}: {column} is not a string; choose another")
        return None if cell is None else one_line(cell.encode(errors="surrogatepass"))

    def _objects(self, advance: Advance) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects with their line numbers. Bytes that are not valid stay so.

        Only blank lines may follow the last one.
        """
        name, encoding = self.request.name, self.request.encoding
        chunks = read_chunks(self.request.path, encoding, watch=lambda raw: advance(len(raw)))
        codec, blank = encoding.line_codec, 0
        for number, line in enumerate(split_lines(prefetched(chunks, ahead=CHUNKS_AHEAD)), start=1):
            text = line.decode(codec, "surrogateescape")
            if not text.strip():
                blank = blank or number
                continue
            if blank:
                raise DataError(f"{name} line {blank:,}: blank; leave such lines out")
            try:
                entry = parse_json(text.removeprefix("\ufeff") if number == 1 else text)
            except ValueError:
                entry = None
            if not isinstance(entry, dict):
                raise DataError(
                    f"{name} line {number:,}: not a JSON object: {printable(text[:60])!r}; "
                    "JSON Lines has one on each line"
                )
            yield number, entry


def _cell(entry: dict[str, Any], column: str) -> object:
    outer, _, inner = column.partition(".")
    nested = entry.get(outer)
    if inner and column not in entry and isinstance(nested, dict):
        return nested.get(inner)
    return entry.get(column)
