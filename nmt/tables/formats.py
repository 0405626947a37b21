"""The files that hold both sides of a text: a row for each kind.

Names, readers, help and messages all go by these rows. This file imports no reader, since
`nmt --help` needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding

STDIN = "-"  # stands for TSV on stdin instead of a file's name
QUOTINGS = ("csv", "none")


@dataclass(frozen=True)
class FileRequest:
    """What is to be read of a file that holds both sides of a text."""

    prefix: str  # the text as the user names it
    file: str  # the file as the user names it, without columns
    path: Path  # of the file, which may be a copy of stdin or of a URL; or of a folder of files
    columns: tuple[str, ...]  # source and target, by their names or numbers; empty to find them
    langs: tuple[str, str]  # source and target language
    encoding: Encoding  # of text; Parquet and TMX have their own
    quoting: str = ""  # whether cells of text are quoted: csv or none; empty to find out
    documents: bool = False  # whether we need to know where documents begin

    @property
    def name(self) -> str:
        return "stdin" if self.file == STDIN else self.file


@dataclass(frozen=True)
class Format:
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
PARQUET = Format("Parquet", ".parquet", "nmt.tables.parquet:ParquetFiles.find")
TABLES = (TSV, CSV, JSON_LINES, PARQUET)


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, without that of compression.

    stdin has that of TSV.
    """
    if name == STDIN:
        return TSV.suffix
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix


def file_and_columns(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Split the name of a text, such as crawl.tsv:en,de, into that of its file and its columns."""
    name, colon, columns = prefix.rpartition(":")
    is_table = suffix_of(name) in {table.suffix for table in TABLES}
    if not colon or "/" in columns or not ("," in columns or is_table):
        return prefix, ()
    return name, tuple(columns.split(","))
