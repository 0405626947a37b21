"""Which reader a text needs, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding, ParallelText
from nmt.errors import DataError, UsageError
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
    copies: Mapping[str, Path] = {},
) -> Reader:
    """Return the reader of a text.

    Args:
        prefix: of two files, or the name of one file, with its columns if it has some.
        langs: source and target language.
        encoding: of text files; Parquet, Arrow and TMX have their own.
        scores: columns of scores that are read, too.
        kept: the column that is kept as provenance, if any.
        copies: of stdin and of URLs, by name.

    Raises:
        DataError: if there is no such text, or it lacks a column.
        UsageError: if columns are named that this kind of text cannot have.
    """
    name, columns = file_and_columns(prefix)
    here, suffix = str(copies.get(name, name)), _suffix(name)
    path = Path(here)
    if len(columns) not in (0, 2):
        raise UsageError(
            f"{prefix}: name two columns, for the source and the target; --min-score reads another "
            "one, and --keep-column keeps it"
        )
    if name == STDIN:
        return TsvFile.find(prefix, path, columns, scores, kept, langs, encoding)
    if is_one_file(name) and not path.exists():
        raise DataError(f"{name}: no such file")
    if suffix == ".tsv":
        return TsvFile.find(prefix, path, columns, scores, kept, langs, encoding)
    if suffix in TABLE_FOLDERS or (path.is_dir() and not _is_prefix(here, langs)):
        return ArrowFiles.find(prefix, path, columns, scores, kept, langs)
    if scores:
        raise UsageError(f"--min-score {name}: only TSV, Parquet and Arrow have columns of scores")
    if columns:
        raise UsageError(f"{prefix}: only TSV, Parquet and Arrow have columns; name no others")
    if suffix == ".tmx":
        return TmxFile(prefix, path, langs, kept)
    if kept:
        raise UsageError(
            f"--keep-column {name}: only TSV, Parquet, Arrow and TMX have columns to keep"
        )
    if suffix == ".zip":
        return ZipFiles.find(path, langs, encoding)
    return MosesFiles(ParallelText.find(here, *langs), encoding)


def is_one_file(name: str) -> bool:
    """Tell by its name whether a text is one file with both sides."""
    return _suffix(name) in (".tsv", ".zip", ".tmx", *TABLE_FOLDERS)


def _suffix(name: str) -> str:
    """Return the suffix of a file name, without that of compression."""
    path = Path(name)
    return Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix


def _is_prefix(name: str, langs: tuple[str, str]) -> bool:
    """Tell whether there is a file PREFIX.LANG. A folder beside it may have the prefix's name."""
    names = (f"{name}.{lang}{suffix}" for lang in langs for suffix in ("", *SUFFIXES))
    return any(Path(one).exists() for one in names)
