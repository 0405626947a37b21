"""Which reader a text needs, by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt import console
from nmt.console import listed
from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding, find_sides
from nmt.errors import DataError, UsageError
from nmt.markup.file_types import decoded, file_type, first_bytes, type_of_content
from nmt.markup.segment_files import SegmentFile, check_segments
from nmt.prepare.readers.hub_files import files_of, is_pattern
from nmt.prepare.readers.line_files import MosesFiles, TextInMemory
from nmt.prepare.readers.reading import Reader
from nmt.prepare.readers.text_names import FORMATS, ZIP, Copies, format_of, two_files
from nmt.system.files import is_there
from nmt.tables import formats
from nmt.tables.table import JoinedTables

_BARS = " ||| "  # between the sides of a pair, as fast_align reads it


def find_reader(
    prefix: str,
    langs: tuple[str, str],
    encoding: Encoding,
    *,
    quoting: str = "",
    split: str = "train",
    copies: Mapping[str, Path] = {},
    documents: bool = False,
) -> Reader:
    """Return the reader of a text.

    prefix: of two files, their names, or the name of one file, with its columns if it has some.
    langs: source and target language.
    encoding: of text files; Parquet and TMX have their own.
    quoting: whether the cells of a table of text are quoted, csv or none; empty to find out.
    split: train, valid or test, by the option that names the text.
    copies: of stdin, of URLs and of tables in archives, by name.
    documents: whether the reader should tell where documents begin.
    DataError if there is no such text, or it lacks a column. UsageError if columns are named that
    this kind of text cannot have.
    """
    name, columns = formats.file_and_columns(prefix)
    here = str(copies.get(name, name))
    path, form = Path(here), format_of(name if name == formats.STDIN else here)
    sheet, columns = formats.sheet_and_columns(prefix, form.suffix if form else "", columns)
    if quoting and not (form and form.has_quotes):
        quoted = listed((table.name for table in formats.TABLES if table.has_quotes), "and")
        raise UsageError(f"--quoting {name}: only {quoted} have quoted cells; leave it out")
    # What was unpacked from an archive is named with it. A .txt has a suffix that we gave it.
    is_named = format_of(name) == ZIP != form and ".txt" not in path.suffixes
    table = f"{name}:{path.name}" if is_named and path.is_file() else name
    request = formats.FileRequest(
        prefix, table, path, columns, langs, encoding, quoting, sheet, documents=documents
    )
    requests = list[formats.FileRequest]()
    if formats.are_two_tables(name):
        requests = [*_two_requests(request, copies)]
    elif (path.is_dir() or is_pattern(here)) and not _is_prefix(here, langs):
        # Several memories that an archive had belong together.
        paths = sorted(path.glob("*/*")) if is_named else files_of(name, path, split)
        requests = [request._replace(file=str(one), path=one) for one in paths]
    if requests:
        parts = [_open(one) for one in requests]
        if parts[0].encoding != parts[-1].encoding:
            raise UsageError(f"{name}: --encoding is of one of the two only; convert it to UTF-8")
        columns = parts[0].columns[:1] + parts[-1].columns[1:]
        return JoinedTables(request, parts, columns, parts[0].encoding)
    formats.refuse_spreadsheet(name)
    if columns and not form:
        is_parted = path.is_file() and _separator(path)
        raise UsageError(_not_a_prefix(name, path, langs) if is_parted else _no_columns(prefix))
    if form:
        reader: Reader = _open(request)
        return reader
    if not _is_prefix(here, langs):
        segments = _find_segments(name, encoding, copies)
        if segments is not None:
            return segments
    files = _find_files(name, here, langs, copies)
    for file in files:
        _refuse_document(file, by_name=not _is_prefix(here, langs))
    return MosesFiles(files, encoding)


def _open(request: formats.FileRequest) -> Any:
    """Return what reads a file (DataError)."""
    name, path = request.file, request.path
    form = format_of(formats.STDIN if name == formats.STDIN else str(path))
    assert form is not None
    if request.columns and not form.has_columns:
        raise UsageError(_no_columns(request.prefix))
    if name != formats.STDIN and not is_there(path):
        raise DataError(f"{name}: no such file")
    if form.has_quotes:
        formats.refuse_spreadsheet(name, first_bytes(path))
    return form.open(request)


def _no_columns(prefix: str) -> str:
    tables = listed((table.name for table in formats.TABLES), "and")
    return f"{prefix}: only {tables} have columns; name no others"


def _two_requests(request: formats.FileRequest, copies: Copies) -> Iterator[formats.FileRequest]:
    """Yield the requests for two tables with a language each."""
    columns = request.columns or ("", "")
    for file, lang, column in zip(request.file.split(","), request.langs, columns, strict=True):
        path, both = copies.get(file, Path(file)), (column, column) if column else ()
        side = request._replace(file=file, path=path, columns=both, langs=(lang, lang))
        yield side._replace(is_one_side=True)


def _find_segments(name: str, encoding: Encoding, copies: Copies) -> TextInMemory | None:
    """Read a test set of WMT or IWSLT, such as src.sgm,ref.sgm or test.xml:A; None if it is none.

    A pair is a segment, not a line.

    DataError if they are damaged, or differ in their segments. UsageError if a side is missing, or
    is no test set.
    """
    names = two_files(name) or (name, name)
    found = [SegmentFile.named(copies.get(one, Path(one))) for one in names]
    if not any(found):
        return None
    sides = []
    for one, file, use in zip(names, found, ("source", "reference"), strict=True):
        if file is None:
            raise UsageError(f"{name}: {one} is lines of text; give it as SGML or XML, too")
        if not file.path.is_file():
            raise DataError(f"{file.path}: no such file")
        if names[0] == names[1] and not file.has_all_sides:
            raise UsageError(f"{name}: has one side only; give two files as SOURCE,TARGET")
        if use == "source":  # of which there is only one
            file = file._replace(whose=None)
        sides.append(file.read(encoding, use))
    check_segments((one, side.segments) for one, side in zip(names, sides, strict=True))
    if sides[-1].left_out:
        console.notice(f"{name}: {sides[-1].described_rest}")
    files = tuple(dict.fromkeys(file.path for file in found if file is not None))
    return TextInMemory.of(names, [side.lines for side in sides], files=files, unit="segment")


def _find_files(name: str, here: str, langs: tuple[str, str], copies: Copies) -> tuple[Path, Path]:
    """Return the files of a prefix, or the two files that are named instead."""
    if _is_prefix(here, langs):
        return find_sides(here, *langs)
    if Path(here).is_file():
        raise UsageError(_not_a_prefix(name, Path(here), langs))
    two = two_files(name)
    if two is None:
        for suffix in ("", *SUFFIXES):
            files = [f"{here}.{side}{suffix}" for side in ("src", "trg")]
            if all(Path(file).is_file() for file in files):  # of the Tatoeba Challenge
                raise DataError(
                    f"{name}.{langs[0]}: no such file; give two files, the one in {langs[0]} "
                    f"first: {','.join(files)}"
                )
        return find_sides(here, *langs)
    src, tgt = (Path(copies.get(file, file)) for file in two)
    for file, path in zip(two, (src, tgt), strict=True):
        if format_of(file):
            raise UsageError(f"{name}: {file} is a table or an archive; give it by itself")
        if not path.is_file():
            raise DataError(
                f"{file}: no such file; {name} is read as two files, SOURCE,TARGET, because there "
                f"is no {name}.{langs[0]}"
            )
    return src, tgt


def _refuse_document(path: Path, *, by_name: bool) -> None:
    """Refuse a file that is no lines of text.

    by_name: whether its suffix counts, too, which is not that of a language.
    DataError if it is known to be of another type.
    """
    kind = file_type(path) if by_name else type_of_content(first_bytes(path))
    if kind is not None:
        raise DataError(
            f"{path}: cannot read {kind.name} as parallel text; write its text to two files, one "
            "segment on each line, or to .tsv or .tmx"
        )


def _separator(path: Path) -> str:
    """Return what seems to separate the columns of a file; empty if nothing does."""
    line = decoded(first_bytes(path)).partition("\n")[0]
    return "\t" if "\t" in line else _BARS if line.count(_BARS) == 1 else ""


def _not_a_prefix(name: str, path: Path, langs: tuple[str, str]) -> str:
    """Say what to give instead of a file."""
    if formats.suffix_of(name) in (".tar", ".tgz", ".tbz2", ".txz"):
        return f"{name}: is a tar archive; unpack it (tar -xf {name}), and name its files"
    separator = _separator(path)
    if separator == _BARS:
        way = f"awk -F ' [|][|][|] ' -v OFS='\\t' '{{print $1, $2}}' {name} > {name}.tsv"
        return f"{name}: has SOURCE ||| TARGET on each line; make it TSV: {way}"
    if separator:
        return f"{name}: has columns parted by tabs; rename it to .tsv"
    _refuse_document(path, by_name=True)
    for lang in langs:
        if name.endswith(f".{lang}"):
            return f"{name}: give the prefix of both files, {name.removesuffix(f'.{lang}')}"
    src, tgt = langs
    return (
        f"{name}: not a prefix; give PREFIX of PREFIX.{src} and PREFIX.{tgt}, two files as "
        f"SOURCE,TARGET, or one file whose name ends in "
        f"{listed((form.suffix for form in FORMATS), 'or')}"
    )


def _is_prefix(name: str, langs: tuple[str, str]) -> bool:
    """Tell whether there is a file PREFIX.LANG. A folder beside it may have the prefix's name."""
    names = (f"{name}.{lang}{suffix}" for lang in langs for suffix in ("", *SUFFIXES))
    return any(Path(name).exists() for name in names)
