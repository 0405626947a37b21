"""Rows of tab-separated text, as crawls publish them: `crawl.tsv:en,de`, or `-` for stdin.

Cells are taken as they are. There is no quoting, so a cell cannot hold a tab or a line feed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.corpus import Encoding, read_chunks
from nmt.data.manifest import FileRecord
from nmt.errors import DataError, UsageError
from nmt.prepare.options import STDIN, file_and_columns
from nmt.prepare.readers.line_files import CHUNKS_AHEAD, Lines
from nmt.prepare.readers.reader import Advance, record_file
from nmt.prepare.readers.table import Row, Table, score_of
from nmt.workers import prefetched

_NUMBER = re.compile(r"[0-9]{1,9}")


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
    places: tuple[int, ...]
    """From 0, of source, target, scores, and the column that is kept if there is one."""
    has_header: bool

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
    ) -> TsvFile:
        """Find the columns; DataError if the header lacks one.

        Args:
            prefix: the text as the user names it.
            path: of the file.
            columns: source and target; if there are none, those that the header names like the
                languages, or else the first two.
            scores: columns of scores.
            kept: the column that is kept; may be empty.
            langs: source and target language.
            encoding: of the text.
        """
        given, _ = file_and_columns(prefix)
        name = "stdin" if given == STDIN else given
        lines = Lines(name, read_chunks(path, encoding))
        first = lines.take(1) if lines.ready() else b""
        header = (encoding.decode(first.rstrip(b"\r\n"), number=1) or "").split("\t")
        if not columns:
            columns = langs if set(langs) <= set(header) else ("1", "2")
        chosen = (*columns, *scores, *([kept] if kept else []))
        if any(_NUMBER.fullmatch(one) and int(one) == 0 for one in chosen):
            raise UsageError(f"{prefix}: columns are counted from 1, not from 0")
        places = tuple(
            int(one) - 1 if _NUMBER.fullmatch(one) else _place(name, one, header) for one in chosen
        )
        has_header = not all(_NUMBER.fullmatch(one) for one in chosen)
        return cls(prefix, path, name, encoding, tuple(columns), kept, places, has_header)

    @property
    def sides(self) -> tuple[str, str]:
        src, tgt = self.columns
        return f"{self.name} column {src}", f"{self.name} column {tgt}"

    def record(self) -> FileRecord:
        found = record_file(self.path)
        return FileRecord(Path(self.name).name, found.size, found.sha256)

    def rows(self, advance: Advance) -> Iterator[Row]:
        src, tgt, *scores = self.places
        kept = scores.pop() if self.kept else None
        chunks = read_chunks(self.path, self.encoding, watch=lambda raw: advance(len(raw)))
        lines = Lines(self.name, prefetched(chunks, ahead=CHUNKS_AHEAD))
        mark = codecs.BOM_UTF8  # before the first row
        if lines.ready() and self.has_header:
            lines.take(1)
            mark = b""
        while ready := lines.ready():
            for line in lines.take(ready).removesuffix(b"\n").split(b"\n"):
                line, mark = line.removesuffix(b"\r").removeprefix(mark), b""
                cells = line.split(b"\t")
                provenance = cells[kept] if kept is not None and kept < len(cells) else b""
                numbers = tuple(score_of(cells[at] if at < len(cells) else None) for at in scores)
                if max(src, tgt) < len(cells):
                    yield Row(cells[src], cells[tgt], False, numbers, provenance)
                else:
                    yield Row(line, b"", True, numbers)


def _place(name: str, column: str, header: Sequence[str]) -> int:
    if header.count(column) != 1:
        many = "has several columns" if column in header else "has no column"
        raise DataError(
            f"{name}: {many} {column!r}; its first row is {', '.join(header[:8])!r}; name columns "
            "by a header or by numbers, such as :1,2"
        )
    return header.index(column)
