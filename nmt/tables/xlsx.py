"""Rows of a sheet of Excel's .xlsx: `table.xlsx`, `table.xlsx:Words:English,German`.

This needs python-calamine, the extra `xlsx`. Without a name, the first sheet is read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from nmt import console
from nmt.data.compressed import DAMAGE, check_unpacked
from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError, UsageError
from nmt.tables.cells import TAB, one_line
from nmt.tables.columns import Columns, find_columns
from nmt.tables.formats import FileRequest
from nmt.tables.table import CellTable

_SAMPLED = 100


@dataclass(frozen=True)
class XlsxFile(CellTable):
    request: FileRequest
    columns: tuple[str, ...]
    places: Columns
    separator = TAB
    encoding = Encoding.find("utf-8")
    fault = "lack a side"

    @classmethod
    def find(cls, request: FileRequest) -> XlsxFile:
        """Find the columns; DataError if there is no such sheet, or the file is damaged."""
        name, (sheets, rows) = request.file, _read(request)
        if not request.sheet and len(sheets) > 1:
            listed = ", ".join(sheets)
            console.notice(
                f"{name}: reading the first of the sheets {listed}; name another as in "
                f"{name}:{sheets[1]}"
            )
        places = find_columns(request, rows[:_SAMPLED], cls.encoding.name)
        return cls(request, places.names, places)

    def _cells(self, advance: Advance) -> Iterator[list[bytes]]:
        _, rows = _read(self.request)
        yield from rows[self.places.skipped :]
        advance(self.request.path.stat().st_size)


def _read(request: FileRequest) -> tuple[list[str], list[list[bytes]]]:
    """Return the names of all sheets, and the rows of one, from the first that is not blank.

    DataError if the file is damaged, would become far too much, or lacks the sheet.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise UsageError(
            "reading .xlsx needs python-calamine; run `pip install python-calamine`"
        ) from None
    name, path = request.file, request.path
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        check_unpacked(name, path.stat().st_size, unpacked)
        workbook = CalamineWorkbook.from_path(path)
        sheets = workbook.sheet_names
        if request.sheet not in ("", *sheets):
            listed = ", ".join(sheets)
            raise DataError(f"{name}: has no sheet {request.sheet!r}; it has {listed}")
        sheet = workbook.get_sheet_by_name(request.sheet or sheets[0])
        rows = sheet.to_python(skip_empty_area=False)
    except (*DAMAGE, zipfile.BadZipFile, CalamineError) as error:
        raise DataError(f"{name}: cannot be read as .xlsx ({error}); save it again") from None
    first, _ = sheet.start or (0, 0)
    return sheets, [[_text(cell) for cell in row] for row in rows[first:]]


def _text(cell: object) -> bytes:
    """Return a cell as text: 7 for the number 7.0."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return one_line(str(cell).encode())
