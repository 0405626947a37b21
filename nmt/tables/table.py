"""Tables of text: what TSV, CSV, JSON Lines, Parquet and spreadsheets have in common.

A row that lacks a side stays a row, so that none is lost without being counted. Rows are counted
from 1, without a header.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
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
