"""Rows of TSV and CSV, as crawls and spreadsheets write them: `crawl.tsv:en,de`, `-` for stdin.

The first rows show what separates their cells, and which are quoted. What they do not show is
refused with what to type.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, islice

from nmt.console import printable
from nmt.data.corpus import Encoding, read_chunks
from nmt.data.line_blocks import CHUNKS_AHEAD, Advance, Lines
from nmt.errors import DataError
from nmt.system.prefetch import prefetched
from nmt.tables.cells import TAB, Quotes, first_rows, guess_separator, quoted_rows
from nmt.tables.columns import Columns, find_columns
from nmt.tables.formats import CSV, FileRequest, suffix_of
from nmt.tables.table import CellTable, Row

_WITH_STATES = ("iso2022", "hz", "utf-7")
"""Encodings in which the byte of a quote or a comma may be part of a letter."""
_SEPARATORS = re.compile(rb"[,;\t|]")
_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?')
_SAMPLED = 100  # lines that show how the rows are written


@dataclass(frozen=True)
class TsvFile(CellTable):
    request: FileRequest
    encoding: Encoding
    columns: tuple[str, ...]  # source and target: names of the header, or numbers from 1
    places: Columns
    separator: bytes
    names_separator: bool  # whether the first line is `sep=;`, for spreadsheets
    quoted: bool  # whether cells are
    quotes: Quotes | None = None  # counts the cells in quotes while the file is read
    fault = "lack a side or have more cells than the first row"

    @classmethod
    def find(cls, request: FileRequest) -> TsvFile:
        """Find the columns; DataError if the file does not show how to read it.

        Without columns, those that the header names like the languages are taken.
        """
        text, encoding = request.file, request.encoding
        if encoding.name.startswith(_WITH_STATES):
            encoding = encoding._replace(by_line=False)
        lines = Lines(text, read_chunks(request.path, encoding))
        block = lines.take(lines.ready()) if lines.ready() else b""
        start = block.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").split(b"\n")[:_SAMPLED]
        start = [line.removesuffix(b"\r") for line in start] if block else []
        if len(start) == 1 and start[0].count(b"\r") > 1:
            raise DataError(f"{text}: its lines end in \\r only; convert it: tr '\\r' '\\n'")
        separator, names_separator, quoting = TAB, False, request.quoting
        if suffix_of(request.file) == CSV.suffix:  # its cells are quoted, without doubt
            quoting = quoting or "csv"
            separator, names_separator = csv_separator(start, request)
            start = start[names_separator:]
        quoted = quoting == "csv"
        if not quoting:
            quotes = Quotes()
            quotes.look_at(block)
            found = quotes.is_quoted()
            # R writes \" for a quote inside.
            in_quotes = len(start) > 1 and all(line[:1] == line[-1:] == b'"' for line in start)
            if found is None or (in_quotes and not found):
                raise _unclear_quotes(text, quotes.example or start[0])
            quoted = found
        if quoted and start:
            rows = first_rows(start, separator, text)
            rows = rows or [next(quoted_rows(iter(start), separator, text))]  # raises what is wrong
        else:
            rows = [line.split(separator) for line in start]
        places = find_columns(request, rows, encoding.line_codec)
        return cls(request, encoding, places.names, places, separator, names_separator, quoted)

    def checked_rows(self, advance: Advance) -> Iterator[Row]:
        if self.quoted or self.request.quoting:  # else rows after the first may show something else
            yield from self.rows(advance)
            return
        quotes = Quotes()
        yield from replace(self, quotes=quotes).rows(advance)
        if quotes.is_quoted() is not False:
            raise _unclear_quotes(self.request.file, quotes.example)

    def _cells(self, advance: Advance) -> Iterator[list[bytes]]:
        chunks = read_chunks(self.request.path, self.encoding, watch=lambda raw: advance(len(raw)))
        first = int(self.names_separator)
        lines = islice(self._lines(chunks), first, None)
        if self.quoted:
            rows = quoted_rows(lines, self.separator, self.request.file, number=1 + first)
        else:
            rows = (line.split(self.separator) for line in lines)
        return islice(rows, self.places.skipped, None)

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


def csv_separator(start: list[bytes], request: FileRequest) -> tuple[bytes, bool]:
    """Return what separates the cells of CSV, by its first lines, and whether the first names it.

    DataError if that is not clear.
    """
    if start and (named := _SEPARATOR_LINE.fullmatch(start[0])):
        return named[1], True
    table = list(dropwhile(lambda line: not _SEPARATORS.search(line), start))  # without a title
    table = table if request.is_one_side else table or start
    return guess_separator(table, request.file), False


def _unclear_quotes(text: str, example: bytes) -> DataError:
    """Return the error for TSV whose cells may be quoted or not."""
    shown = printable(example.decode(errors="replace")[:60])
    return DataError(
        f"{text}: cells such as {shown} may be quoted, as spreadsheets do, or be text with quotes; "
        f"pass --quoting {text}=csv or --quoting {text}=none"
    )
