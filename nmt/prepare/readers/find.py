"""Which reader a text needs, by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding, ParallelText
from nmt.errors import DataError
from nmt.prepare.options import STDIN, TABLE_FOLDERS, file_and_columns
from nmt.prepare.readers.arrow import ArrowFiles
from nmt.prepare.readers.line_files import MosesFiles, ZipFiles
from nmt.prepare.readers.reader import Reader
from nmt.prepare.readers.tmx import TmxFile
from nmt.prepare.readers.tsv import TsvFile


def find_reader(
    prefix: str,
    langs: tuple[str, str],
    encoding: Encoding,
    *,
    scores: Sequence[str] = (),
    kept: str = "",
    stdin: Path | None = None,
) -> Reader:
    """Return the reader of a text.

    Args:
        prefix: of two files, or the name of one file, with its columns if it has some.
        langs: source and target language.
        encoding: of text files; Parquet, Arrow and TMX have their own.
        scores: columns of scores that are read, too.
        kept: the column that is kept as provenance, if any.
        stdin: the copy of stdin.

    Raises:
        DataError: if there is no such text, or it lacks a column.
    """
    name, columns = file_and_columns(prefix)
    path, suffix = Path(name), _suffix(name)
    if len(columns) not in (0, 2):
        raise DataError(f"{prefix}: name two columns, for the source and the target")
    if name == STDIN:
        if stdin is None:
            raise DataError(f"{prefix}: only training text is read from stdin")
        return TsvFile.find(prefix, stdin, columns, scores, kept, langs, encoding)
    if suffix in (".tsv", ".zip", ".tmx", *TABLE_FOLDERS) and not path.exists():
        raise DataError(f"{name}: no such file")
    if suffix == ".tsv":
        return TsvFile.find(prefix, path, columns, scores, kept, langs, encoding)
    if suffix in TABLE_FOLDERS or path.is_dir():
        return ArrowFiles.find(prefix, path, columns, scores, kept, langs)
    if scores:
        raise DataError(f"--min-score {name}: only TSV, Parquet and Arrow have columns of scores")
    if columns:
        raise DataError(f"{prefix}: only TSV, Parquet and Arrow have columns; name no others")
    if suffix == ".tmx":
        return TmxFile(prefix, path, langs, kept)
    if kept:
        raise DataError(
            f"--keep-column {name}: only TSV, Parquet, Arrow and TMX have columns to keep"
        )
    if suffix == ".zip":
        return ZipFiles.find(path, langs, encoding)
    return MosesFiles(ParallelText.find(prefix, *langs), encoding)


def _suffix(name: str) -> str:
    """Return the suffix of a file name, without that of compression."""
    path = Path(name)
    return Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix
