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
from nmt.system.prefetch import prefetched
from nmt.tables.cells import one_line
from nmt.tables.columns import are_by_language, by_language, chosen_columns
from nmt.tables.formats import FileRequest
from nmt.tables.json_values import json_object
from nmt.tables.row_choice import RowChoice
from nmt.tables.table import Row, Table

_SAMPLED = 100


@dataclass(frozen=True)
class JsonLines(Table):
    """A file of objects. A row lacks a side if its object lacks the key, or has null there."""

    request: FileRequest
    columns: tuple[str, ...]
    choice: RowChoice | None = None
    encoding = Encoding.find("utf-8")  # of rows, whatever the file is in

    @classmethod
    def find(cls, request: FileRequest) -> JsonLines:
        """Find the columns; DataError if the first lines are not JSON, or lack one.

        Without columns, those named like the languages are taken, also inside of `translation`.
        """
        table = cls(request, request.columns or ("", ""))
        entries = [entry for _, entry in islice(table._objects(lambda _: None), _SAMPLED)]
        fields = [field for entry in entries for field in _fields(entry)]
        names = list(dict.fromkeys(name for name, _ in fields))
        if not names:
            return table
        strings = {name for name, cell in fields if isinstance(cell, str)}
        choice = RowChoice.find(request, names, lambda name: [_cell(one, name) for one in entries])
        places = [place for place, name in enumerate(names) if name in strings]
        src, tgt = (names[place] for place in chosen_columns(request, names, places, choice))
        return replace(table, columns=(src, tgt), choice=choice and choice.for_columns(src, tgt))

    def rows(self, advance: Advance) -> Iterator[Row]:
        are_others, choice = are_by_language(self.columns), self.choice
        for number, entry in self._objects(advance):
            if choice:
                told = [_cell(entry, column) for column in choice.columns]
                if left_out := choice.reason_against(told):
                    yield Row(b"", b"", left_out=left_out)
                    continue
            src, tgt = (self._text(number, entry, column) for column in self.columns)
            if src is None or tgt is None:
                shown = json.dumps(entry, ensure_ascii=False).encode(errors="replace")
                yield Row(shown, b"", True, is_of_others=are_others)
            else:
                yield Row(src, tgt)

    def _text(self, number: int, entry: dict[str, Any], column: str) -> bytes | None:
        cell = _cell(entry, column)
        if isinstance(cell, str):
            return one_line(cell.encode(errors="surrogatepass"))
        if cell is None:
            return None
        problem = "is not a string; choose another"
        if isinstance(cell, list):
            src, tgt = (f".{c}" + "[$n]" * isinstance(_cell(entry, c), list) for c in self.columns)
            make = f"range(.{column} | length) as $n | {{src: {src}, tgt: {tgt}}}"
            problem = f"is a list; write a pair on each line: jq -c '{make}'"
        raise DataError(f"{self.request.name} line {number:,}: {column} {problem}")

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
            entry = json_object(text.removeprefix("\ufeff") if number == 1 else text)
            if entry is None:
                raise DataError(
                    f"{name} line {number:,}: not a JSON object: {printable(text[:60])!r}; "
                    "JSON Lines has one on each line"
                )
            yield number, entry


def _cell(entry: dict[str, Any], column: str) -> object:
    """Return what an object has in a column, at any depth: a.b is b of a, unless a key has dots."""
    inside: object = entry
    while isinstance(inside, dict):
        if column in inside or column in (inside := by_language(inside)):
            return inside[column]
        outer, _, column = column.partition(".")
        inside = inside.get(outer)
    return None


def _fields(entry: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the columns of an object, and the fields inside of them, with what they hold."""
    waiting = [("", entry)]
    for prefix, inside in waiting:
        for key, cell in by_language(inside).items():
            yield f"{prefix}{key}", cell
            if isinstance(cell, dict):
                waiting.append((f"{prefix}{key}.", cell))
