"""Rows of a sheet of .xlsx or .ods: `table.xlsx`, `table.xlsx:Words:English,German`.

This needs python-calamine, the extra `xlsx`. Without a name, the first sheet is read.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from nmt import console
from nmt.data.compressed import DAMAGE, check_unpacked
from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError, UsageError
from nmt.system.files import open_file
from nmt.tables.cells import TAB, one_line
from nmt.tables.columns import Columns, find_columns
from nmt.tables.formats import FileRequest, suffix_of
from nmt.tables.table import CellTable

_SAMPLED = 100
_MOST_CELLS = 1 << 24
_ODS_TAG = re.compile(rb"<table:(?:covered-)?table-(row|cell)(?=[\s/>])[^>]*>")
_REPEATED = re.compile(rb'-repeated="([0-9]{1,9})"')
_LOST = re.compile(rb"<text:(?:line-break|tab)(?=[\s/>])")  # python-calamine 0.9 leaves no space
_PLACE = re.compile(rb"""\sr=["']([A-Z]{0,3})([0-9]{1,7})["']""")  # of a cell, such as B7, or a row


@dataclass(frozen=True)
class XlsxFile(CellTable):
    request: FileRequest
    columns: tuple[str, ...]
    places: Columns
    separator = TAB
    encoding = Encoding.find("utf-8")

    @classmethod
    def find(cls, request: FileRequest) -> XlsxFile:
        """Find the columns; DataError if there is no such sheet, or the file is damaged."""
        places = find_columns(request, read_sheet(request)[:_SAMPLED], cls.encoding.name)
        return cls(request, places.names, places)

    def _cells(self, advance: Advance) -> Iterator[list[bytes]]:
        _, rows = _read(self.request)
        yield from rows[self.places.skipped :]
        advance(self.request.path.stat().st_size)


def read_sheet(request: FileRequest) -> list[list[bytes]]:
    """Return the rows of a sheet, and tell which one it is if there are several (see `_read`)."""
    name, (sheets, rows) = request.file, _read(request)
    if not request.sheet and len(sheets) > 1:
        another = f"{name}:{sheets[1]}{':COLUMN' * request.is_one_side}"
        console.notice(f"{name}: reading sheet {sheets[0]}; for another: {another}")
    return rows


def _read(request: FileRequest) -> tuple[list[str], list[list[bytes]]]:
    """Return the names of all sheets, and the rows of one, from the first that is not blank.

    DataError if the file is damaged, would become far too much, or lacks the sheet.
    """
    name, path, form = request.file, request.path, suffix_of(request.file)
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise UsageError(
            f"reading {form} needs python-calamine; run `pip install python-calamine`"
        ) from None
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            check_unpacked(name, path.stat().st_size, sum(member.file_size for member in members))
            for member in members:
                if member.filename.startswith("xl/worksheets/"):
                    _check_area(name, archive.read(member))
                if member.filename == "content.xml":  # of .ods
                    _check_repeats(name, archive.read(member))
        workbook = CalamineWorkbook.from_path(path)
        sheets = workbook.sheet_names
        if (chosen := request.sheet or "".join(sheets[:1])) not in sheets:
            raise DataError(f"{name}: has no sheet {chosen!r}; it has {', '.join(sheets)}")
        sheet = workbook.get_sheet_by_name(chosen)
        rows = sheet.to_python(skip_empty_area=False)
    except (*DAMAGE, zipfile.BadZipFile, RuntimeError, ValueError, CalamineError) as error:
        raise DataError(f"{name}: cannot be read as {form} ({error}); save it again") from None
    first, _ = sheet.start or (0, 0)
    return sheets, [list(map(_text, row)) for row in rows[first:]]


def _check_area(name: str, sheet: bytes) -> None:
    """Raise DataError if cells are so far apart that the library would take gigabytes."""
    columns, rows = zip(*(_PLACE.findall(sheet) or [(b"", b"0")]), strict=True)
    column, row = max(columns, key=lambda one: (len(one), one)), max(map(int, rows))
    if reduce(lambda number, letter: 26 * number + letter - 64, column, 0) * row > _MOST_CELLS:
        raise DataError(f"{name}: has a cell at {column.decode()}{row}; delete those far away")


def _check_repeats(name: str, content: bytes) -> None:
    """Raise DataError if the library would lose spaces of .ods, or take gigabytes for its cells."""
    if broken := _LOST.search(content):
        raise DataError(f"{name}: has <{broken[0][1:].decode()}/> in cells; save it as .xlsx")
    rows = cells = width = height = 0
    for tag in _ODS_TAG.finditer(content):
        repeated = _REPEATED.search(tag[0])
        times = int(repeated[1]) if repeated else 1
        if tag[1] == b"row":
            rows, cells = rows + times, 0
            continue
        cells += times
        if not tag[0].endswith(b"/>"):  # it is not empty
            width, height = max(width, cells), rows
    if width * height > _MOST_CELLS:
        raise DataError(f"{name}: has too many cells; delete those that are far away or repeated")


def _text(cell: object) -> bytes:
    """Return a cell as text: 7 for the number 7.0."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return one_line(str(cell).encode())
