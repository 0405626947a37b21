"""Rows of Parquet and Arrow files, and of folders of them as hubs have them.

This needs the extra `nmt[arrow]`. Columns are named: `hub.parquet:en,de`, or
`hub.parquet:translation.en,translation.de` for the fields of one column, which is found by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from nmt.data.corpus import Encoding
from nmt.data.manifest import FileRecord
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.cells import one_line
from nmt.prepare.readers.columns import lacks_column, language_columns, nested_columns
from nmt.prepare.readers.reader import Advance, record_files
from nmt.prepare.readers.table import Row, Table, TableRequest, side_cell
from nmt.prepare.readers.text_names import TABLE_FOLDERS

_BATCH_ROWS = 1024
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_BYTES_OF = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
_STRINGS = tuple(_BYTES_OF)
_WHOLE_NUMBER = re.compile(r"u?int\d+")


@dataclass(frozen=True)
class ArrowFiles(Table):
    """One file, or all of a folder in the order of their names."""

    request: TableRequest
    shards: tuple[Path, ...]
    columns: tuple[str, ...]
    """Source and target."""
    encoding = Encoding.find("utf-8")

    @classmethod
    def find(cls, request: TableRequest) -> ArrowFiles:
        """Find the columns; DataError if a file is damaged or lacks one.

        Without columns, those named like the languages are taken, also inside of `translation`.
        """
        path, columns = request.path, request.columns
        shards: tuple[Path, ...] = (path,)
        if path.is_dir():
            shards = tuple(
                sorted(shard for shard in path.iterdir() if shard.suffix.lower() in TABLE_FOLDERS)
            )
            if len({shard.suffix.lower() for shard in shards}) != 1:
                raise DataError(
                    f"{path}: must have files of one of {', '.join(TABLE_FOLDERS)}; for others, "
                    "give the prefix of two files, as in FOLDER/train, or one file"
                )
        names = [_names(shard) for shard in shards]
        if not columns:
            is_text = names[0].get("translation") in _STRINGS
            if is_text and not language_columns(str(path), list(names[0]), request.langs):
                raise DataError(
                    f"{path}: its column translation is text, perhaps JSON, not a field for each "
                    "language; write a column for each language, or the JSON as .jsonl"
                )
            columns = nested_columns(str(shards[0]), list(names[0]), request.langs)
        for shard, there in zip(shards, names, strict=True):
            for column in (*columns, *request.others):
                if column not in there:
                    raise lacks_column(str(shard), column, list(there))
            for column in columns:
                if there[column] not in _STRINGS:
                    raise DataError(
                        f"{shard}: the column {column} is of type {there[column]}, not a string"
                    )
            for kept in (column.column for column in request.side_columns if column.kept_as):
                if not (there[kept] in _STRINGS or _WHOLE_NUMBER.fullmatch(there[kept])):
                    raise DataError(
                        f"--keep-column {shard}: the column {kept} is of type {there[kept]}; it "
                        "must hold strings or whole numbers"
                    )
        return cls(request, shards, columns)

    @property
    def files(self) -> tuple[Path, ...]:
        return self.shards

    def record(self) -> FileRecord:
        path = self.request.path
        return record_files(path.name, self.shards) if path.is_dir() else super().record()

    def rows(self, advance: Advance) -> Iterator[Row]:
        side_columns = self.request.side_columns
        wanted = list(dict.fromkeys((*self.columns, *self.request.others)))
        for shard in self.shards:
            with _Opened(shard) as file:
                for cells_of in file.batches(wanted):
                    src, tgt = (cells_of[column] for column in self.columns)
                    others = [
                        [side_cell(cell, column) for cell in cells_of[column.column]]
                        for column in side_columns
                    ]
                    cells = zip(*others, strict=True) if others else repeat(())
                    for src_cell, tgt_cell, side_cells in zip(src, tgt, cells, strict=False):
                        sides = one_line(src_cell or b""), one_line(tgt_cell or b"")
                        yield Row(*sides, src_cell is None or tgt_cell is None, side_cells)
                    advance(0)
            advance(shard.stat().st_size)


def _names(path: Path) -> dict[str, str]:
    """Return the columns, and the fields of columns of structures, with their types."""
    types = {}
    with _Opened(path) as file:
        for field in file.schema:
            if field.name in types:
                raise DataError(f"{path}: has several columns {field.name!r}; rename one of them")
            types[field.name] = str(field.type)
            if _pyarrow().types.is_struct(field.type):
                inner = (field.type.field(at) for at in range(field.type.num_fields))
                types |= {f"{field.name}.{part.name}": str(part.type) for part in inner}
    return types


def _cells(batch: Any, column: str) -> list[Any]:
    """Return the cells of a column, text as bytes, which need not be valid UTF-8.

    The offsets of text are checked first: those of a damaged file point anywhere into memory.
    """
    arrow = _pyarrow()
    name, _, field = column.partition(".")
    if column in batch.schema.names:
        array = batch.column(column)
    else:
        array = arrow.compute.struct_field(batch.column(name), field)
    if str(array.type) in _STRINGS:
        array = array.cast(_BYTES_OF[str(array.type)])
    array.validate(full=True)
    return list(array.to_pylist())


class _Opened:
    """A file of any of the three formats: Parquet, Arrow's file and Arrow's stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        arrow = _pyarrow()
        try:
            if path.suffix.lower() == ".parquet":
                import pyarrow.parquet

                self._file = pyarrow.parquet.ParquetFile(path)
                self.schema = self._file.schema_arrow
            else:
                source = arrow.memory_map(str(path))
                try:
                    self._file = arrow.ipc.open_file(source)
                except arrow.ArrowInvalid:
                    self._file = arrow.ipc.open_stream(source)
                    if source.read_at(8, max(0, source.size() - 8)) != _END_OF_STREAM:
                        raise arrow.ArrowInvalid("the mark of its end is missing") from None
                self.schema = self._file.schema
        except (arrow.ArrowException, OSError) as error:
            raise _damaged(path, error) from None

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path.suffix.lower() == ".parquet":
            self._file.close()

    def batches(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """Yield the cells of these columns in batches of rows."""
        try:
            for batch in self._batches(columns):
                yield {column: _cells(batch, column) for column in columns}
        except (_pyarrow().ArrowException, OSError) as error:
            raise _damaged(self._path, error) from None

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        if self._path.suffix.lower() == ".parquet":
            yield from self._file.iter_batches(_BATCH_ROWS, columns=list(columns))
        elif hasattr(self._file, "num_record_batches"):
            for at in range(self._file.num_record_batches):
                yield from _cut(self._file.get_batch(at))
        else:
            for batch in self._file:
                yield from _cut(batch)


def _cut(batch: Any) -> Iterator[Any]:
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield batch.slice(start, _BATCH_ROWS)


def _damaged(path: Path, error: Exception) -> DataError:
    told = str(error).partition("\n")[0]
    return DataError(f"{path}: cut short or damaged ({told}); download it again")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
    except ImportError:
        raise UsageError(
            "reading Parquet and Arrow needs pyarrow; run `pip install nmt[arrow]`"
        ) from None
    return pyarrow
