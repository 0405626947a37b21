"""Text whose pairs are rows of one file: what TSV, JSON Lines, Parquet and TMX have in common.

A row that lacks a side is a pair that cleaning drops by the rule `missing`, so no row is lost
without being counted. Rows are counted from 1, without a header.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from nmt.data.corpus import Encoding
from nmt.data.manifest import FileRecord
from nmt.errors import DataError
from nmt.prepare.block import Block
from nmt.prepare.readers import reader
from nmt.prepare.readers.line_files import Validity
from nmt.prepare.readers.reader import MAX_BAD_SHARE, Advance, Survey, record_file
from nmt.prepare.readers.text_names import STDIN, file_and_columns


@dataclass(frozen=True)
class TableRequest:
    """What is to be read of a file whose pairs are rows."""

    prefix: str  # the text as the user names it
    path: Path  # of the file, which may be a copy of stdin or of a URL; or of a folder of files
    columns: tuple[str, ...]  # source and target, by their names or numbers; empty to find them
    langs: tuple[str, str]  # source and target language
    encoding: Encoding  # of text; Parquet and TMX have their own
    quoting: str = ""  # whether cells of text are quoted: csv or none; empty to find out

    @property
    def file(self) -> str:
        """The file as the user names it, without columns."""
        return file_and_columns(self.prefix)[0]

    @property
    def name(self) -> str:
        return "stdin" if self.file == STDIN else self.file


class Row(NamedTuple):
    """A row, without line feeds in its text."""

    src: bytes  # if a side is missing, what the report shows of the row
    tgt: bytes
    is_missing: bool = False
    is_of_others: bool = False  # whether it lacks a side because it is a pair of other languages


class Table(ABC):
    request: TableRequest
    encoding: Encoding
    columns: tuple[str, ...]  # source and target, as they were chosen
    unit = "row"  # what holds a pair
    named = "columns"  # what the user chooses the two sides by
    fault = "lack a side"  # of rows that are missing
    quoted = False  # whether it is text whose cells are quoted

    @property
    def sides(self) -> tuple[str, str]:
        """What messages call the source and the target."""
        src, tgt = (f"{self.request.name} column {column}" for column in self.columns)
        return src, tgt

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.request.path,)

    def record(self) -> FileRecord:
        """Return name, size and checksum of the file or folder."""
        return replace(record_file(self.request.path), name=Path(self.request.name).name)

    @abstractmethod
    def rows(self, advance: Advance) -> Iterator[Row]:
        """Yield all rows."""

    def surveys(self) -> Sequence[Callable[[Advance], Survey]]:
        """Return the function that reads the text once."""
        return [self._survey]

    def _survey(self, advance: Advance) -> Survey:
        return self._survey_rows(self.rows(advance))

    def _survey_rows(self, all_rows: Iterable[Row]) -> Survey:
        validity = Validity(self.encoding)
        prefix, rows = self.request.prefix, 0
        text_bytes = missing = of_others = 0
        first: Row | None = None
        first_row = 0
        for row in all_rows:
            rows += 1
            if row.is_missing:
                missing += 1
                of_others += row.is_of_others
                first, first_row = first or row, first_row or rows
                continue
            text_bytes += len(row.src) + len(row.tgt)
            is_bad = False
            for side in (row.src, row.tgt):
                if not side.isascii():
                    validity.look_at(side)
                    is_bad = is_bad or self.encoding.decode(side, number=rows) is None
            if is_bad:
                validity.count_bad(rows)
        warnings = validity.warnings(str(self.request.path), rows, "row")
        if first is not None:
            shown = first.src.decode(errors="replace")[:60]
            told = (
                f"{prefix}: {missing:,} of {rows:,} rows {self.fault}, such as row "
                f"{first_row:,}: {shown!r}"
            )
            if missing == rows or missing - of_others > MAX_BAD_SHARE * rows:
                raise DataError(f"{told}; check the file and its {self.named}")
            warnings = (*warnings, told)
        return Survey(self.record(), rows, text_bytes, warnings)

    def blocks(self, *, corpus: int = 0, start: int = 1) -> Iterator[Block]:
        """Yield the rows from `start` on; DataError if a file is damaged.

        The ends of blocks depend only on the bytes of the text and on `start`.
        """
        waiting: list[Row] = []
        waiting_bytes, number = 0, start
        for row_number, row in enumerate(self.rows(_ignore), start=1):
            if row_number < start:
                continue
            size = len(row.src) + len(row.tgt)
            if waiting and (
                len(waiting) == reader.BLOCK_LINES or waiting_bytes + size > reader.BLOCK_BYTES
            ):
                yield self._block(corpus, number, waiting)
                number += len(waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(row)
            waiting_bytes += size
        if waiting:
            yield self._block(corpus, number, waiting)

    def _block(self, corpus: int, number: int, rows: Sequence[Row]) -> Block:
        return Block(
            corpus,
            number,
            len(rows),
            b"".join([row.src + b"\n" for row in rows]),
            b"".join([row.tgt + b"\n" for row in rows]),
            self.encoding,
            missing=frozenset(at for at, row in enumerate(rows, start=number) if row.is_missing),
        )


def _ignore(_: int) -> None:
    pass
