"""The files that hold both sides of a text: a row for each kind.

Names, readers, help and messages all go by these rows. This file imports no reader, since
`nmt --help` needs it.
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding
from nmt.errors import UsageError

_SPREADSHEETS = (".xlsm", ".xlsb", ".xls", ".numbers")
_SPREADSHEET_STARTS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # a ZIP archive, and the older .xls
STDIN = "-"  # stands for TSV on stdin instead of a file's name
QUOTINGS = ("csv", "none")


class FileRequest(NamedTuple):
    """What is to be read of a file that holds both sides of a text."""

    prefix: str  # the text as the user names it
    file: str  # the file as the user names it, without columns
    path: Path  # of the file, which may be a copy of stdin or of a URL; or of a folder of files
    columns: tuple[str, ...]  # source and target, by their names or numbers; empty to find them
    langs: tuple[str, str]  # source and target language
    encoding: Encoding  # of text; Parquet and TMX have their own
    quoting: str = ""  # whether cells of text are quoted: csv or none; empty to find out
    sheet: str = ""  # of a spreadsheet; empty for the first one
    is_one_side: bool = False  # whether the file holds one language, so that both columns are one
    documents: bool = False  # whether we need to know where documents begin

    @property
    def name(self) -> str:
        return "stdin" if self.file == STDIN else self.file


class Format(NamedTuple):
    name: str
    suffix: str  # of its files, in any case
    reader: str  # MODULE:FUNCTION, which takes a request and returns what reads the file
    has_columns: bool = True
    has_quotes: bool = False  # whether it is text, whose cells may be quoted

    def open(self, request: FileRequest) -> Any:
        """Return what reads a file; DataError if it is damaged, or not what was asked for."""
        return resolve_name(self.reader)(request)


TSV = Format("TSV", ".tsv", "nmt.tables.tsv:TsvFile.find", has_quotes=True)
CSV = Format("CSV", ".csv", "nmt.tables.tsv:TsvFile.find", has_quotes=True)
JSON_LINES = Format("JSON Lines", ".jsonl", "nmt.tables.jsonl:JsonLines.find")
PARQUET = Format("Parquet", ".parquet", "nmt.tables.parquet:ParquetFile.find")
XLSX = Format("XLSX", ".xlsx", "nmt.tables.xlsx:XlsxFile.find")
ODS = Format("ODS", ".ods", "nmt.tables.xlsx:XlsxFile.find")
TABLES = (TSV, CSV, JSON_LINES, PARQUET, XLSX, ODS)
SPREADSHEETS = (XLSX.suffix, ODS.suffix)  # which have several sheets


def refuse_spreadsheet(name: str, start: bytes = b"") -> None:
    """Refuse a spreadsheet that no reader knows, by its name or its first bytes (UsageError)."""
    if name.lower().endswith(_SPREADSHEETS) or start.startswith(_SPREADSHEET_STARTS):
        raise UsageError(
            f"{name}: is a spreadsheet; open it and save it as {XLSX.suffix}, or as CSV UTF-8"
        )


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, without that of compression.

    stdin has that of TSV.
    """
    if name == STDIN:
        return TSV.suffix
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix


def is_table(name: str) -> bool:
    return suffix_of(name) in {table.suffix for table in TABLES}


def are_two_tables(name: str) -> bool:
    """Return whether a text is two tables with a language each, such as eng.jsonl,deu.jsonl."""
    files = name.split(",")
    return len(files) == 2 and STDIN not in files and all(map(is_table, files))


def file_and_columns(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Split the name of a text, such as crawl.tsv:en,de, into that of its file and its columns.

    Of sheet.xlsx:Words:en,de, the name of the sheet comes first. Two tables may have a column
    each, which is empty where it must be found: eng.jsonl:text,deu.jsonl.
    """
    sides = list(map(_file_and_column, prefix.split(",")))
    files, columns = ",".join(file for file, _ in sides), tuple(column for _, column in sides)
    if are_two_tables(files):
        return files, columns if any(columns) else ()
    name, colon, listed = prefix.rpartition(":")
    file, _, sheet = name.rpartition(":")
    is_of_sheet = suffix_of(file) in SPREADSHEETS
    if not colon or "/" in listed or not ("," in listed or is_table(name) or is_of_sheet):
        return prefix, ()
    if is_of_sheet:
        return file, (sheet, *listed.split(","))
    return name, tuple(listed.split(","))


def sheet_and_columns(
    prefix: str, suffix: str, named: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Split what is named of a file into its sheet, which may be empty, and two columns or none.

    prefix: the text as the user names it; suffix: of the file.
    UsageError if it is another number of columns.
    """
    of_sheet = len(named) % 2 if suffix in SPREADSHEETS else 0
    if len(named) - of_sheet not in (0, 2):
        raise UsageError(f"{prefix}: name two columns, for the source and the target")
    return "".join(named[:of_sheet]), named[of_sheet:]


def name_and_value(text: str) -> tuple[str, str]:
    """Split TEXT=VALUE at the last equals sign, since a prefix may hold others.

    A file is named without its columns.
    """
    prefix, _, value = text.rpartition("=")
    return file_and_columns(prefix)[0], value


def _file_and_column(side: str) -> tuple[str, str]:
    name, _, column = side.rpartition(":")
    return (name, column) if is_table(name) else (side, "")
