"""Rows of Parquet files, as hubs have them.

This needs pyarrow, the extra `arrow`. Columns are named: `hub.parquet:en,de`, or
`hub.parquet:translation.en,translation.de` for the fields of one column, which is found by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nmt.data.compressed import check_unpacked
from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError, UsageError
from nmt.system.files import refuse_pointer
from nmt.tables.cells import one_line
from nmt.tables.columns import are_by_language, by_language, chosen_columns
from nmt.tables.formats import FileRequest
from nmt.tables.row_choice import RowChoice
from nmt.tables.table import Row, Table

_BATCH_ROWS = 1024
_BYTES_OF = {"string": "binary", "large_string": "large_binary"}
_LISTS = {"language", "translation"}
"""Fields of a column with two lists: of languages, and of the text in each of them."""


class _Column(NamedTuple):
    path: tuple[str, ...]  # its name, after those of the columns that it is inside of
    type: str
    language: str = ""  # of its text, if the path leads to two lists

    @property
    def name(self) -> str:
        return ".".join((*self.path, self.language) if self.language else self.path)


@dataclass(frozen=True)
class ParquetFile(Table):
    request: FileRequest
    columns: tuple[str, ...]  # source and target
    cells: tuple[_Column, ...]  # what is read: source, target, and what chooses rows
    choice: RowChoice | None
    encoding = Encoding.find("utf-8")

    @classmethod
    def find(cls, request: FileRequest) -> ParquetFile:
        """Find the columns; DataError if the file is damaged or lacks one.

        Without columns, those named like the languages are taken, also inside of `translation`.
        """
        there = {column.name: column for column in _columns(request.path)}
        names = list(there)

        def samples(name: str) -> Sequence[object]:
            return next(_batches(request.path, [there[name]]), [[]])[0]

        choice = RowChoice.find(request, names, samples)
        strings = [place for place, name in enumerate(names) if there[name].type in _BYTES_OF]
        places = chosen_columns(request, names, strings, choice)
        src, tgt = (there[names[place]] for place in places)
        for column in (src, tgt):
            if column.type not in _BYTES_OF:
                way = "; write a pair to each row" if "list" in column.type else ""
                raise DataError(
                    f"{request.path}: the column {column.name} is of type {column.type}, not a "
                    f"string{way}"
                )
        choice = choice and choice.for_columns(src.name, tgt.name)
        told = [there[name] for name in choice.columns] if choice else []
        return cls(request, (src.name, tgt.name), (src, tgt, *told), choice)

    def rows(self, advance: Advance) -> Iterator[Row]:
        path, choice = self.request.path, self.choice
        are_others = are_by_language(self.columns)
        for batch in _batches(path, self.cells):
            for src, tgt, *told in zip(*batch, strict=True):
                left_out = choice.reason_against(told) if choice else ""
                sides = one_line(src or b""), one_line(tgt or b"")
                is_missing = src is None or tgt is None
                yield Row(*sides, is_missing, are_others and is_missing, left_out)
            advance(0)
        advance(path.stat().st_size)


def _columns(path: Path) -> list[_Column]:
    """Return the columns, and those inside of them."""
    file = _open(path)
    names = file.schema_arrow.names
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{path}: has several columns {name!r}; rename one of them")
    columns = list[_Column]()
    waiting: list[tuple[tuple[str, ...], Any]]
    waiting = [((field.name,), field.type) for field in file.schema_arrow]
    for parts, kind in waiting:
        columns.append(_Column(parts, str(kind)))
        is_structure = str(kind).startswith("struct")
        fields = [kind.field(n) for n in range(kind.num_fields)] if is_structure else []
        waiting += [((*parts, field.name), field.type) for field in fields]
        if {field.name for field in fields} == _LISTS:
            (cells,) = next(_batches(path, [_Column(parts, "")]), [[]])
            langs = dict.fromkeys(lang for cell in cells for lang in by_language(cell or {}))
            columns += [_Column(parts, "string", lang) for lang in langs]
    return columns


def _open(path: Path) -> Any:
    """Open a file; DataError if it is damaged, or would become far too much."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("reading Parquet needs pyarrow; run `pip install pyarrow`") from None
    with path.open("rb") as start:
        refuse_pointer(path, start.peek())
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged(path, error) from None
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    check_unpacked(str(path), path.stat().st_size, sum(group.total_byte_size for group in groups))
    return file


def _batches(path: Path, columns: Sequence[_Column]) -> Iterator[list[list[Any]]]:
    """Yield the cells of each column in batches of rows; DataError as `_open`.

    Text is bytes, which need not be valid UTF-8.
    """
    from pyarrow import ArrowException

    unpacked, names = 0, [".".join(column.path) for column in columns]
    try:
        for batch in _open(path).iter_batches(_BATCH_ROWS, columns=names):
            # The file may hold a long text once, and refer to it from many rows.
            unpacked += batch.nbytes
            check_unpacked(str(path), path.stat().st_size, unpacked)
            yield [_cells(batch, column) for column in columns]
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None


def _cells(batch: Any, column: _Column) -> list[Any]:
    from pyarrow import compute

    outer, *inner = column.path
    array = batch.column(outer)
    if inner:
        array = compute.struct_field(array, inner)
    if column.language:
        texts = (by_language(cell or {}).get(column.language) for cell in array.to_pylist())
        return [text and text.encode() for text in texts]
    kind = str(array.type)
    cells: list[Any] = (array.cast(_BYTES_OF[kind]) if kind in _BYTES_OF else array).to_pylist()
    return cells


def _damaged(path: Path, error: Exception) -> DataError:
    told = str(error).partition("\n")[0]
    return DataError(f"{path}: cut short or damaged ({told}); download it again")
