"""Which reader a text needs, by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nmt.data.corpus import Encoding, ParallelText
from nmt.errors import DataError
from nmt.prepare.options import STDIN, TABLE_FOLDERS, file_and_columns, is_one_file, suffix_of
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
    copies: Mapping[str, Path] = {},
) -> Reader:
    """Return the reader of a text.

    Args:
        prefix: of two files, or the name of one file, with its columns if it has some.
        langs: source and target language.
        encoding: of text files; Parquet, Arrow and TMX have their own.
        scores: columns of scores that are read, too.
        copies: of stdin and of URLs, by name.

    Raises:
        DataError: if there is no such text, or it lacks a column.
    """
    name, columns = file_and_columns(prefix)
    path, suffix = copies.get(name, Path(name)), suffix_of(name)
    if len(columns) not in (0, 2):
        raise DataError(f"{prefix}: name two columns, for the source and the target")
    if name == STDIN:
        return TsvFile.find(prefix, path, columns, scores, langs, encoding)
    if is_one_file(name) and not path.exists():
        raise DataError(f"{name}: no such file")
    if suffix == ".tsv":
        return TsvFile.find(prefix, path, columns, scores, langs, encoding)
    if suffix in TABLE_FOLDERS or path.is_dir():
        return ArrowFiles.find(prefix, path, columns, scores, langs)
    if scores:
        raise DataError(f"--min-score {name}: only TSV, Parquet and Arrow have columns of scores")
    if columns:
        raise DataError(f"{prefix}: only TSV, Parquet and Arrow have columns; name no others")
    if suffix == ".zip":
        return ZipFiles.find(path, langs, encoding)
    if suffix == ".tmx":
        return TmxFile(prefix, path, langs)
    return MosesFiles(ParallelText.find(str(copies.get(name, prefix)), *langs), encoding)
