"""Rows of Parquet and Arrow files, and of folders of them as hubs have them.

This needs the extra `nmt-toolkit[arrow]`. Columns are named: `hub.parquet:en,de`, or
`hub.parquet:translation.en,translation.de` for the fields of one column, which is found by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from nmt.data.compressed import check_unpacked
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
    columns: tuple[str, ...]  # source and target
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
            for other in request.others:
                if "<" in there[other]:
                    raise DataError(
                        f"{shard}: the column {other} is of type {there[other]}; it must hold "
                        "strings or numbers"
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
            for cells_of in _Cells(shard, wanted).batches():
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
    schema, _ = _open(path)
    types = {}
    for field in schema:
        if field.name in types:
            raise DataError(f"{path}: has several columns {field.name!r}; rename one of them")
        types[field.name] = str(field.type)
        if _pyarrow().types.is_struct(field.type):
            inner = (field.type.field(at) for at in range(field.type.num_fields))
            types |= {f"{field.name}.{part.name}": str(part.type) for part in inner}
    return types


def _open(path: Path, columns: Sequence[str] = ()) -> tuple[Any, Iterator[Any]]:
    """Open Parquet, Arrow's file or Arrow's stream; return the schema and the batches of rows.

    Parquet's text is read as references to each different text. DataError if it is damaged, or
    would become far too much.
    """
    arrow = _pyarrow()
    try:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet

            parquet = pyarrow.parquet.ParquetFile(path, read_dictionary=list(columns))
            groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
            unpacked = sum(group.total_byte_size for group in groups)
            check_unpacked(str(path), path.stat().st_size, unpacked)
            batches = parquet.iter_batches(_BATCH_ROWS, columns=list(columns))
            return parquet.schema_arrow, batches
        source = arrow.memory_map(str(path))
        try:
            file = arrow.ipc.open_file(source)
        except arrow.ArrowInvalid:
            if source.size() < 8 or source.read_at(8, source.size() - 8) != _END_OF_STREAM:
                raise
            source.seek(0)
            stream = arrow.ipc.open_stream(source)
            return stream.schema, iter(stream)
        return file.schema, map(file.get_batch, range(file.num_record_batches))
    except (arrow.ArrowException, OSError) as error:
        raise _damaged(path, error) from None


class _Cells:
    """The cells of some columns of a file.

    A small file may hold a long text once and refer to it from many rows. So what is counted for
    `check_unpacked` is the text of all rows. A compressed batch of Arrow is unpacked before.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path, self._columns = path, columns
        self._size, self._unpacked = path.stat().st_size, 0

    def batches(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the cells of the columns in batches of rows; DataError as `_open`."""
        _, batches = _open(self._path, self._columns)
        try:
            for batch in batches:
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    rows = batch.slice(start, _BATCH_ROWS)
                    yield {column: self._cells(rows, column) for column in self._columns}
        except (_pyarrow().ArrowException, OSError) as error:
            raise _damaged(self._path, error) from None

    def _cells(self, batch: Any, column: str) -> list[Any]:
        """Return the cells of a column, text as bytes, which need not be valid UTF-8.

        The offsets of text are checked first: those of a damaged file point anywhere into memory.
        """
        arrow = _pyarrow()
        name, _, field = column.partition(".")
        if column in batch.schema.names:
            array = batch.column(column)
        else:
            array = arrow.compute.struct_field(batch.column(name), field)
        self._count(len(array))
        if arrow.types.is_dictionary(array.type):
            used = arrow.compute.unique(array.indices)
            texts = self._texts(array.dictionary.take(used))
            text_of = dict(zip(used.to_pylist(), texts, strict=True))
            cells = [text_of[index] for index in array.indices.to_pylist()]
            self._count(sum(map(len, filter(None, cells))))
            return cells
        if str(array.type) in _STRINGS:
            return self._texts(array)
        array.validate(full=True)
        return list(array.to_pylist())

    def _texts(self, array: Any) -> list[bytes | None]:
        array = array.cast(_BYTES_OF[str(array.type)])
        array.validate(full=True)
        if not str(array.type).endswith("view"):
            self._count(array.nbytes)
            return list(array.to_pylist())
        texts: list[bytes | None] = []
        for cell in array:  # which may all be the same part of the file
            self._count(len(cell.as_buffer() or b""))
            texts.append(cell.as_py())
        return texts

    def _count(self, size: int) -> None:
        self._unpacked += size
        check_unpacked(str(self._path), self._size, self._unpacked)


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
            "reading Parquet and Arrow needs pyarrow; run `pip install 'nmt-toolkit[arrow]'`"
        ) from None
    return pyarrow
