"""Tables of text: what TSV, CSV, JSON Lines, Parquet and spreadsheets have in common.

A row that lacks a side stays a row, so that none is lost without being counted. Rows are counted
from 1, without a header.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError
from nmt.tables.columns import Columns
from nmt.tables.formats import FileRequest

_NULL = b"\\N"  # what databases write for a cell that has no text


class Row(NamedTuple):
    """A row, without line feeds in its text."""

    src: bytes  # if a side is missing, what the report shows of the row
    tgt: bytes
    is_missing: bool = False
    is_of_others: bool = False  # whether it lacks a side because it is a pair of other languages
    left_out: str = ""
    """Why the row is no part of the text: what it says of its languages, or of its source."""


class Table(ABC):
    request: FileRequest
    encoding: Encoding
    columns: tuple[str, ...]  # source and target, as they were chosen; none if it has languages
    unit = "row"  # what holds a pair
    named = "columns"  # what the user chooses the two sides by
    fault = "lack a side"  # of rows that are missing
    quoted = False  # whether it is text whose cells are quoted

    @property
    def sides(self) -> tuple[str, str]:
        """What messages call the source and the target."""
        names = [f"column {column}" for column in self.columns]
        src, tgt = names or (f"({lang})" for lang in self.request.langs)
        return f"{self.request.name} {src}", f"{self.request.name} {tgt}"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.request.path,)

    @abstractmethod
    def rows(self, advance: Advance) -> Iterator[Row]:
        """Yield all rows."""

    def checked_rows(self, advance: Advance) -> Iterator[Row]:
        """Yield all rows; DataError at the end if they show that the table is written otherwise."""
        return self.rows(advance)


class CellTable(Table):
    """A table of rows of cells, whose columns are known by their places."""

    places: Columns
    separator: bytes  # between the cells of a row that is shown

    @abstractmethod
    def _cells(self, advance: Advance) -> Iterator[list[bytes]]:
        """Yield the cells of each row after the header."""

    def rows(self, advance: Advance) -> Iterator[Row]:
        (src, tgt), most, choice = self.places.places, self.places.cells, self.places.choice
        for cells in self._cells(advance):
            size, left_out = len(cells), ""
            if choice is not None:
                told = (cells[n] if n < size else b"" for n in self.places.choice_places)
                left_out = choice.reason_against([*told])
            is_whole = src < size > tgt and (size <= most or not any(cells[most:]))
            if is_whole and _NULL not in (cells[src], cells[tgt]):
                yield Row(cells[src], cells[tgt], left_out=left_out)
            else:
                yield Row(self.separator.join(cells), b"", True, left_out=left_out)


@dataclass(frozen=True)
class JoinedTables(Table):
    """A text of several tables: one after another, such as shards, or one for each language."""

    request: FileRequest
    parts: Sequence[Table]  # of one format; two of one language each, or any number with both
    columns: tuple[str, ...]
    encoding: Encoding

    @property
    def named(self) -> str:  # type: ignore[override]
        return self.parts[0].named

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(part.request.path for part in self.parts)

    def rows(self, advance: Advance) -> Iterator[Row]:
        return self._joined(lambda part: part.rows(advance))

    def checked_rows(self, advance: Advance) -> Iterator[Row]:
        return self._joined(lambda part: part.checked_rows(advance))

    def _joined(self, rows_of: Callable[[Table], Iterator[Row]]) -> Iterator[Row]:
        parts = map(rows_of, self.parts)
        if not self.parts[0].request.is_one_side:
            yield from chain.from_iterable(parts)
            return
        for number, (src, tgt) in enumerate(zip_longest(*parts)):
            if src is None or tgt is None:
                raise DataError(
                    f"{self.request.name}: one table ends after row {number:,}, but the other does "
                    "not; both need a row for each pair"
                )
            left_out = src.left_out or tgt.left_out
            yield Row(src.src, tgt.tgt, src.is_missing or tgt.is_missing, left_out=left_out)
