"""Rows of TSV and CSV, as crawls and spreadsheets write them: `crawl.tsv:en,de`, `-` for stdin."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nmt.data.corpus import Encoding, read_chunks
from nmt.prepare.readers.cells import Quotes, quoted_rows
from nmt.prepare.readers.layout import TableLayout, find_layout, unclear_quotes
from nmt.prepare.readers.line_files import CHUNKS_AHEAD, Lines
from nmt.prepare.readers.reader import Advance, Survey
from nmt.prepare.readers.table import Row, Table, TableRequest
from nmt.system.lookahead import prefetched

_WITH_STATES = ("iso2022", "hz", "utf-7")
"""Encodings in which the byte of a quote or a comma may be part of a letter."""
_NULL = b"\\N"  # what databases write for a cell that has no text


@dataclass(frozen=True)
class TsvFile(Table):
    request: TableRequest
    encoding: Encoding
    columns: tuple[str, ...]  # source and target: names of the header, or numbers from 1
    layout: TableLayout
    quoted: bool
    warnings: tuple[str, ...]
    quotes: Quotes | None = None  # counts the cells in quotes while the file is read
    fault = "lack a side or have more cells than the first row"

    @classmethod
    def find(cls, request: TableRequest, *, is_csv: bool = False) -> TsvFile:
        """Find the columns; DataError if the file does not show how to read it.

        Without columns, those that the header names like the languages are taken, or else the only
        two.

        is_csv: whether it is CSV, and its separator is to be found.
        """
        encoding = request.encoding
        if encoding.name.startswith(_WITH_STATES):
            encoding = replace(encoding, by_line=False)
        lines = Lines(request.file, read_chunks(request.path, encoding))
        layout = find_layout(request, lines, encoding, is_csv=is_csv)
        columns = layout.columns
        warnings = (columns.warning,) if columns.warning else ()
        return cls(request, encoding, columns.names, layout, layout.quoted, warnings)

    def _survey(self, advance: Advance) -> Survey:
        if not self.layout.is_guessed:
            return super()._survey(advance)
        quotes = Quotes(self.layout.columns.cells)
        survey = Table._survey(replace(self, quotes=quotes), advance)
        if quotes.is_quoted() is not False:
            raise unclear_quotes(self.request.file, quotes)
        return survey

    def rows(self, advance: Advance) -> Iterator[Row]:
        src, tgt = self.layout.columns.places
        most = sys.maxsize if self.layout.columns.is_wide else self.layout.columns.cells
        for cells in self._cells(advance):
            size = len(cells)
            is_whole = src < size > tgt and (size <= most or not any(cells[most:]))
            if is_whole and _NULL not in (cells[src], cells[tgt]):
                yield Row(cells[src], cells[tgt])
            else:
                yield Row(self.layout.separator.join(cells), b"", True)

    def _cells(self, advance: Advance) -> Iterator[list[bytes]]:
        layout = self.layout
        chunks = read_chunks(self.request.path, self.encoding, watch=lambda raw: advance(len(raw)))
        lines = self._lines(chunks)
        if layout.names_separator:
            next(lines)
        if self.quoted:
            name, number = self.request.file, 1 + layout.names_separator
            rows = quoted_rows(lines, layout.separator, name, number=number)
        else:
            rows = (line.split(layout.separator) for line in lines)
        if layout.columns.has_header:
            next(rows, None)
        return rows

    def _lines(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        lines = Lines(self.request.name, prefetched(chunks, ahead=CHUNKS_AHEAD))
        mark = codecs.BOM_UTF8  # before the first row
        while ready := lines.ready():
            block = lines.take(ready)
            if self.quotes is not None:
                self.quotes.look_at(block)
            for line in block.removesuffix(b"\n").split(b"\n"):
                yield line.removesuffix(b"\r").removeprefix(mark)
                mark = b""
