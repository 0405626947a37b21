"""How a parallel text is read: once for its survey, and then in blocks.

A row that lacks a side is a pair that cleaning drops by the rule `missing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from nmt.data import line_blocks
from nmt.data.line_blocks import Advance
from nmt.errors import DataError
from nmt.prepare.block import Block
from nmt.prepare.readers.line_files import LineFiles, Validity
from nmt.prepare.readers.reader import MAX_BAD_SHARE, Survey, record_file, record_files
from nmt.tables.table import Row, Table

Reader = LineFiles | Table  # what reads a parallel text, more than once


def surveys_of(reader: Reader) -> Sequence[Callable[[Advance], Survey]]:
    """Return functions that read a text once: one for each side, or one for both."""
    return reader.surveys() if isinstance(reader, LineFiles) else [partial(_survey_rows, reader)]


def blocks_of(reader: Reader, *, corpus: int = 0, start: int = 1) -> Iterator[Block]:
    """Yield the lines or rows of a text from `start` on; DataError if they cannot be read."""
    read = reader.blocks if isinstance(reader, LineFiles) else partial(_row_blocks, reader)
    return read(corpus=corpus, start=start)


def _survey_rows(table: Table, advance: Advance) -> Survey:
    """Read a table once (DataError)."""
    validity = Validity(table.encoding)
    request, rows = table.request, 0
    text_bytes = missing = of_others = 0
    first: Row | None = None
    first_row = 0
    for row in table.checked_rows(advance):
        rows += 1
        if row.is_missing:
            missing += 1
            of_others += row.is_of_others
            first, first_row = first or row, first_row or rows
            continue
        text_bytes += len(row.src) + len(row.tgt)
        beyond_ascii = [side for side in (row.src, row.tgt) if not side.isascii()]
        for side in beyond_ascii:
            validity.look_at(side)
        if any(table.encoding.decode(side, number=rows) is None for side in beyond_ascii):
            validity.count_bad(rows)
    warnings = validity.warnings(str(request.path), rows, "row")
    if first is not None:
        shown = first.src.decode(errors="replace")[:60]
        told = (
            f"{request.prefix}: {missing:,} of {rows:,} rows {table.fault}, such as row "
            f"{first_row:,}: {shown!r}"
        )
        if missing == rows or missing - of_others > MAX_BAD_SHARE * rows:
            raise DataError(f"{told}; check the file and its {table.named}")
        warnings = (*warnings, told)
    if request.path.is_dir():
        record = record_files(request.path.name, table.files)
    else:
        record = replace(record_file(request.path), name=Path(request.name).name)
    return Survey(record, rows, text_bytes, warnings)


def _row_blocks(table: Table, *, corpus: int, start: int) -> Iterator[Block]:
    """Yield the rows from `start` on; DataError if a file is damaged.

    The ends of blocks depend only on the bytes of the text and on `start`.
    """
    waiting: list[Row] = []
    waiting_bytes, number = 0, start
    for row in islice(table.rows(lambda _: None), start - 1, None):
        size = len(row.src) + len(row.tgt)
        if waiting and (
            len(waiting) == line_blocks.BLOCK_LINES
            or waiting_bytes + size > line_blocks.BLOCK_BYTES
        ):
            yield _block(table, corpus, number, waiting)
            number += len(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append(row)
        waiting_bytes += size
    if waiting:
        yield _block(table, corpus, number, waiting)


def _block(table: Table, corpus: int, number: int, rows: Sequence[Row]) -> Block:
    return Block(
        corpus,
        number,
        len(rows),
        b"".join([row.src + b"\n" for row in rows]),
        b"".join([row.tgt + b"\n" for row in rows]),
        table.encoding,
        missing=frozenset(index for index, row in enumerate(rows, start=number) if row.is_missing),
    )
