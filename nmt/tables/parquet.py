"""Rows of Parquet files, and of folders of them as hubs have them.

This needs pyarrow, the extra `arrow`. Columns are named: `hub.parquet:en,de`, or
`hub.parquet:translation.en,translation.de` for the fields of one column, which is found by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.data.compressed import check_unpacked
from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError, UsageError
from nmt.system.files import refuse_pointer
from nmt.tables.cells import one_line
from nmt.tables.columns import nested_columns
from nmt.tables.formats import PARQUET, FileRequest
from nmt.tables.table import Row, Table

_BATCH_ROWS = 1024
_BYTES_OF = {"string": "binary", "large_string": "large_binary"}


@dataclass(frozen=True)
class ParquetFiles(Table):
    """One file, or all of a folder in the order of their names."""

    request: FileRequest
    shards: tuple[Path, ...]
    columns: tuple[str, ...]  # source and target
    encoding = Encoding.find("utf-8")

    @classmethod
    def find(cls, request: FileRequest) -> ParquetFiles:
        """Find the columns; DataError if a file is damaged or lacks one.

        Without columns, those named like the languages are taken, also inside of `translation`.
        """
        path, suffix, shards = request.path, PARQUET.suffix, [request.path]
        if path.is_dir():
            shards = sorted(shard for shard in path.iterdir() if shard.suffix.lower() == suffix)
        if not shards:
            raise DataError(
                f"{path}: has no {suffix} files; for others, give the prefix of two files, as in "
                "FOLDER/train, or one file"
            )
        types = list(map(_types, shards))
        chosen = replace(request, columns=nested_columns(request, str(shards[0]), list(types[0])))
        for shard, there in zip(shards, types, strict=True):
            for column in nested_columns(chosen, str(shard), list(there)):
                if there[column] not in _BYTES_OF:
                    raise DataError(
                        f"{shard}: the column {column} is of type {there[column]}, not a string"
                    )
        return cls(request, tuple(shards), chosen.columns)

    @property
    def files(self) -> tuple[Path, ...]:
        return self.shards

    def rows(self, advance: Advance) -> Iterator[Row]:
        for shard in self.shards:
            for cells in _batches(shard, self.columns):
                for src, tgt in zip(*cells, strict=True):
                    sides = one_line(src or b""), one_line(tgt or b"")
                    yield Row(*sides, is_missing=src is None or tgt is None)
                advance(0)
            advance(shard.stat().st_size)


def _types(path: Path) -> dict[str, str]:
    """Return the columns, and the fields of columns of structures, with their types."""
    types: dict[str, str] = {}
    for field in _open(path).schema_arrow:
        if field.name in types:
            raise DataError(f"{path}: has several columns {field.name!r}; rename one of them")
        types[field.name] = str(field.type)
        inner = (field.type.field(index) for index in range(field.type.num_fields))
        types |= {f"{field.name}.{part.name}": str(part.type) for part in inner}
    return types


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


def _batches(path: Path, columns: Sequence[str]) -> Iterator[list[list[bytes | None]]]:
    """Yield the cells of each column in batches of rows; DataError as `_open`.

    Cells are bytes, which need not be valid UTF-8.
    """
    from pyarrow import ArrowException, compute

    unpacked = 0
    try:
        for batch in _open(path).iter_batches(_BATCH_ROWS, columns=list(columns)):
            # The file may hold a long text once, and refer to it from many rows.
            unpacked += batch.nbytes
            check_unpacked(str(path), path.stat().st_size, unpacked)
            cells = []
            for column in columns:
                name, _, field = column.partition(".")
                is_field = column not in batch.schema.names
                array = batch.column(name if is_field else column)
                array = compute.struct_field(array, field) if is_field else array
                cells.append(array.cast(_BYTES_OF[str(array.type)]).to_pylist())
            yield cells
    except (ArrowException, OSError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> DataError:
    told = str(error).partition("\n")[0]
    return DataError(f"{path}: cut short or damaged ({told}); download it again")
