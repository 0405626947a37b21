"""Rows of Parquet and Arrow files, and of folders of them as hubs have them.

This needs the extra `nmt-toolkit[arrow]`. Columns are named: `hub.parquet:en,de`, or
`hub.parquet:translation.en,translation.de` for the fields of one column, which is found by itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from nmt.data.corpus import Encoding
from nmt.data.manifest import FileRecord
from nmt.errors import DataError, UsageError
from nmt.limits import check_unpacked
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
# Where the parts of an Arrow file's metadata stand, by Arrow's Message.fbs and File.fbs.
_MAGIC = b"ARROW1"
_BATCHES = (2, 3)  # of dictionaries, and of rows
_HEADER, _DICTIONARY, _BUFFERS, _COMPRESSION = 2, 1, 2, 3
_BLOCK, _BUFFER = "qi4xq", "qq"


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
            with _Opened(shard, wanted) as file:
                for cells_of in file.batches():
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


class _Opened:
    """A file of any of the three formats: Parquet, Arrow's file and Arrow's stream.

    A small file may hold a long text once and refer to it from many rows. So what is counted for
    `check_unpacked` is the text of all rows, and Parquet's text is read as references.
    """

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        """Open a file, to read some columns of it.

        Raises:
            DataError: if it is damaged, or would become far too much.
        """
        self._path, self._columns = path, list(columns)
        self._size, self._unpacked = path.stat().st_size, 0
        arrow = _pyarrow()
        try:
            if path.suffix.lower() == ".parquet":
                import pyarrow.parquet

                self._file = pyarrow.parquet.ParquetFile(path, read_dictionary=self._columns)
                self.schema = self._file.schema_arrow
                groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
                unpacked = sum(group.total_byte_size for group in groups)
            else:
                source = arrow.memory_map(str(path))
                try:
                    self._file = arrow.ipc.open_file(source)
                except arrow.ArrowInvalid:
                    self._file = arrow.ipc.open_stream(source)
                    if source.read_at(8, max(0, source.size() - 8)) != _END_OF_STREAM:
                        raise arrow.ArrowInvalid("the mark of its end is missing") from None
                self.schema = self._file.schema
                unpacked = sum(map(_unpacked_size, _messages(arrow.memory_map(str(path)))))
        except (arrow.ArrowException, OSError, EOFError, struct.error) as error:
            raise _damaged(path, error) from None
        check_unpacked(str(path), self._size, unpacked)

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path.suffix.lower() == ".parquet":
            self._file.close()

    def batches(self) -> Iterator[dict[str, list[Any]]]:
        """Yield the cells of the columns in batches of rows."""
        try:
            for batch in self._batches():
                yield {column: self._cells(batch, column) for column in self._columns}
        except (_pyarrow().ArrowException, OSError) as error:
            raise _damaged(self._path, error) from None

    def _batches(self) -> Iterator[Any]:
        if self._path.suffix.lower() == ".parquet":
            yield from self._file.iter_batches(_BATCH_ROWS, columns=self._columns)
        elif hasattr(self._file, "num_record_batches"):
            for at in range(self._file.num_record_batches):
                yield from _cut(self._file.get_batch(at))
        else:
            for batch in self._file:
                yield from _cut(batch)

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
            return list(array.to_pylist())
        texts: list[bytes | None] = []
        for cell in array:  # which may all be the same part of the file
            self._count(len(cell.as_buffer() or b""))
            texts.append(cell.as_py())
        return texts

    def _count(self, size: int) -> None:
        self._unpacked += size
        check_unpacked(str(self._path), self._size, self._unpacked)


def _messages(source: Any) -> Iterator[Any]:
    """Yield the messages of a sound Arrow file, of which Arrow reads those that its end lists."""
    ipc, size = _pyarrow().ipc, source.size()
    if source.read_at(len(_MAGIC), max(0, size - len(_MAGIC))) != _MAGIC:
        yield from ipc.MessageReader.open_stream(source)
        return
    (length,) = struct.unpack("<i", source.read_at(4, size - 10))
    footer = _Table.root(source.read_at(length, size - 10 - length))
    for blocks in _BATCHES:
        for start, _, _ in footer.vector(blocks, _BLOCK):
            source.seek(start)
            yield ipc.read_message(source)


def _unpacked_size(message: Any) -> int:
    """Return what the compressed buffers of a message would become, as they say, in bytes."""
    header = _Table.root(message.metadata).table(_HEADER)
    if message.type == "dictionary":
        header = header and header.table(_DICTIONARY)
    if message.body is None or header is None or header.place_of(_COMPRESSION) is None:
        return 0
    sizes = [
        struct.unpack_from("<q", message.body, start)[0]
        for start, length in header.vector(_BUFFERS, _BUFFER)
        if length
    ]
    return sum(size for size in sizes if size > 0)  # -1: not compressed


@dataclass(frozen=True)
class _Table:
    """A table of a FlatBuffer, which Arrow's metadata are."""

    content: Any
    place: int

    @classmethod
    def root(cls, content: Any) -> _Table:
        return cls(content, 0)._follow(0)

    def _follow(self, place: int) -> _Table:
        return _Table(self.content, place + struct.unpack_from("<I", self.content, place)[0])

    def place_of(self, field: int) -> int | None:
        """Return where a field stands; None if it is not set."""
        fields = self.place - struct.unpack_from("<i", self.content, self.place)[0]
        (size,) = struct.unpack_from("<H", self.content, fields)
        if 4 + 2 * field >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.content, fields + 4 + 2 * field)
        return self.place + offset if offset else None

    def table(self, field: int) -> _Table | None:
        place = self.place_of(field)
        return None if place is None else self._follow(place)

    def vector(self, field: int, kind: str) -> Iterator[tuple[int, ...]]:
        """Return the structures in a vector."""
        start = self.table(field)
        if start is None:
            return iter(())
        (count,) = struct.unpack_from("<I", self.content, start.place)
        end = start.place + 4 + count * struct.calcsize(f"<{kind}")
        return struct.iter_unpack(f"<{kind}", memoryview(self.content)[start.place + 4 : end])


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
            "reading Parquet and Arrow needs pyarrow; run `pip install 'nmt-toolkit[arrow]'`"
        ) from None
    return pyarrow
