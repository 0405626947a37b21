"""Rows of TSV and CSV, as crawls and spreadsheets write them: `crawl.tsv:en,de`, `-` for stdin."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nmt.data.corpus import Encoding, read_chunks
from nmt.data.manifest import FileRecord
from nmt.pipeline import prefetched
from nmt.prepare.readers.cells import Quotes, quoted_rows
from nmt.prepare.readers.layout import Layout, find_layout, unclear_quotes
from nmt.prepare.readers.line_files import CHUNKS_AHEAD, Lines
from nmt.prepare.readers.reader import Advance, Survey, record_file
from nmt.prepare.readers.table import Row, Table, score_of
from nmt.prepare.text_names import STDIN, file_and_columns

_WITH_STATES = ("iso2022", "hz", "utf-7")
"""Encodings in which the byte of a quote or a comma may be part of a letter."""
_NULL = b"\\N"
"""What databases write for a cell that has no text."""


@dataclass(frozen=True)
class TsvFile(Table):
    """A file of rows."""

    prefix: str
    path: Path
    name: str
    """As the user knows it: `path` may be a copy of stdin or of a URL."""
    encoding: Encoding
    columns: tuple[str, ...]
    """Source and target: names of the header, or numbers from 1."""
    kept: str
    layout: Layout
    quoted: bool
    warnings: tuple[str, ...]
    quotes: Quotes | None = None
    """Counts the cells in quotes while the file is read."""
    fault = "lack a side or have more cells than the first row"

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
        *,
        quoting: str = "",
        is_csv: bool = False,
    ) -> TsvFile:
        """Find the columns; DataError if the file does not show how to read it.

        Args:
            prefix: the text as the user names it.
            path: of the file.
            columns: source and target; if there are none, those that the header names like the
                languages, or else the only two.
            scores: columns of scores.
            kept: the column that is kept; may be empty.
            langs: source and target language.
            encoding: of the text.
            quoting: whether cells are quoted: csv or none; empty to find out.
            is_csv: whether it is CSV, and its separator is to be found.
        """
        given, _ = file_and_columns(prefix)
        if encoding.name.startswith(_WITH_STATES):
            encoding = replace(encoding, by_line=False)
        layout = find_layout(
            given,
            Lines(given, read_chunks(path, encoding)),
            encoding,
            langs,
            columns=columns,
            others=(*scores, *([kept] if kept else [])),
            quoting=quoting,
            is_csv=is_csv,
        )
        name = "stdin" if given == STDIN else given
        found = layout.columns
        warnings = (found.warning,) if found.warning else ()
        return cls(prefix, path, name, encoding, found.names, kept, layout, layout.quoted, warnings)

    @property
    def sides(self) -> tuple[str, str]:
        src, tgt = self.columns
        return f"{self.name} column {src}", f"{self.name} column {tgt}"

    def record(self) -> FileRecord:
        found = record_file(self.path)
        return FileRecord(Path(self.name).name, found.size, found.sha256)

    def _survey(self, advance: Advance) -> Survey:
        if not self.layout.is_guessed:
            return super()._survey(advance)
        quotes = Quotes(self.layout.columns.cells)
        survey = Table._survey(replace(self, quotes=quotes), advance)
        if quotes.is_quoted() is not False:
            raise unclear_quotes(file_and_columns(self.prefix)[0], quotes)
        return survey

    def rows(self, advance: Advance) -> Iterator[Row]:
        src, tgt, *scores = self.layout.columns.places
        kept = scores.pop() if self.kept else None
        most = sys.maxsize if self.layout.columns.is_wide else self.layout.columns.cells
        for cells in self._cells(advance):
            size = len(cells)
            provenance = cells[kept] if kept is not None and kept < size else b""
            numbers = tuple(score_of(cells[at] if at < size else None) for at in scores)
            is_whole = src < size > tgt and (size <= most or not any(cells[most:]))
            if is_whole and _NULL not in (cells[src], cells[tgt]):
                yield Row(cells[src], cells[tgt], False, numbers, provenance)
            else:
                yield Row(self.layout.separator.join(cells), b"", True, numbers)

    def _cells(self, advance: Advance) -> Iterator[list[bytes]]:
        """Yield the cells of each row, without the header."""
        layout = self.layout
        chunks = read_chunks(self.path, self.encoding, watch=lambda raw: advance(len(raw)))
        lines = self._lines(chunks)
        if layout.names_separator:
            next(lines)
        if self.quoted:
            name, number = file_and_columns(self.prefix)[0], 1 + layout.names_separator
            rows = quoted_rows(lines, layout.separator, name, number=number)
        else:
            rows = (line.split(layout.separator) for line in lines)
        if layout.columns.has_header:
            next(rows, None)
        return rows

    def _lines(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        lines = Lines(self.name, prefetched(chunks, ahead=CHUNKS_AHEAD))
        mark = codecs.BOM_UTF8  # before the first row
        while ready := lines.ready():
            block = lines.take(ready)
            if self.quotes is not None:
                self.quotes.look_at(block)
            for line in block.removesuffix(b"\n").split(b"\n"):
                yield line.removesuffix(b"\r").removeprefix(mark)
                mark = b""
