"""How a parallel text is read: once for its survey, and then in blocks.

A row that lacks a side is a pair that cleaning drops by the rule `missing`. A row that is left out
is no part of the text, and has no number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from nmt import console
from nmt.data import line_blocks
from nmt.data.line_blocks import Advance
from nmt.data.manifest import record_file, record_files
from nmt.errors import DataError
from nmt.prepare.block import Block
from nmt.prepare.readers.line_files import MAX_BAD_SHARE, LineFiles, Survey, Validity
from nmt.tables.table import Row, Table

_SHOWN = 8  # reasons of rows that are left out
_MOST_LOST = 0.2
"""A larger share of rows without their letters is none of text: questions have one mark, at the end
of a word."""
_INSIDE = re.compile(r"[^\W\d_]\?+[a-zß-ӿ]")
"""Marks inside of a word of Latin, Greek or Cyrillic letters, which addresses have, too."""

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
    request, prefix = table.request, table.request.prefix
    rows = text_bytes = missing = of_others = first_row = 0
    first: Row | None = None
    left_out = Counter[str]()
    codec, lost = table.encoding.line_codec, [0, 0]  # sources and targets without their letters
    for row in table.checked_rows(advance):
        if row.left_out:
            left_out[row.left_out] += 1
            continue
        rows += 1
        if row.is_missing:
            missing += 1
            of_others += row.is_of_others
            first, first_row = first or row, first_row or rows
            continue
        text_bytes += len(row.src) + len(row.tgt)
        for side, text in enumerate((row.src, row.tgt)):
            if b"?" in text:
                lost[side] += _lacks_letters(text.decode(codec, "replace"))
        beyond_ascii = [text for text in (row.src, row.tgt) if not text.isascii()]
        for text in beyond_ascii:
            validity.look_at(text)
        if any(table.encoding.decode(text, number=rows) is None for text in beyond_ascii):
            validity.count_bad(rows)
    others = ", ".join(f"{why} {count:,}" for why, count in left_out.most_common(_SHOWN))
    if others and not rows:
        raise DataError(
            f"{prefix}: no row is of {'-'.join(request.langs)}, but {others}; check --src "
            "and --tgt, and the columns"
        )
    if others:
        total = rows + left_out.total()
        console.notice(f"{prefix}: {total - rows:,} of {total:,} rows are left out: {others}")
    for name, count in zip(table.sides, lost, strict=True):
        if count > _MOST_LOST * rows:
            raise DataError(
                f"{name}: {count:,} of {rows:,} rows hold question marks in place of letters; save "
                "the file again, in Excel as CSV UTF-8 or .xlsx"
            )
    warnings = validity.warnings(str(request.path), rows, "row")
    if first is not None:
        shown = first.src.decode(errors="replace")[:60]
        told = (
            f"{prefix}: {missing:,} of {rows:,} rows {table.fault}, such as row "
            f"{first_row:,}: {shown!r}"
        )
        if missing == rows or missing - of_others > MAX_BAD_SHARE * rows:
            raise DataError(f"{told}; check the file and its {table.named}")
        warnings = (*warnings, told)
    name, files = Path(request.name).name, table.files
    if request.path.is_dir() or len(files) > 1:
        record = record_files(name, files)
    else:
        record = replace(record_file(files[0]), name=name)
    return Survey(record, rows, text_bytes, warnings)


def _lacks_letters(text: str) -> bool:
    """Return whether question marks seem to stand for letters that an encoding did not have."""
    are_most = 2 * text.count("?") > len(text) and "??" in text
    return are_most or bool(_INSIDE.search(text) and "/" not in text and "=" not in text)


def _row_blocks(table: Table, *, corpus: int, start: int) -> Iterator[Block]:
    """Yield the rows from `start` on; DataError if a file is damaged.

    The ends of blocks depend only on the bytes of the text and on `start`.
    """
    waiting: list[Row] = []
    waiting_bytes, number = 0, start
    rows = (row for row in table.rows(lambda _: None) if not row.left_out)
    for row in islice(rows, start - 1, None):
        size = len(row.src) + len(row.tgt)
        is_full = waiting_bytes + size > line_blocks.BLOCK_BYTES
        if waiting and (is_full or len(waiting) == line_blocks.BLOCK_LINES):
            yield _block(table, corpus, number, waiting)
            number += len(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append(row)
        waiting_bytes += size
    if waiting:
        yield _block(table, corpus, number, waiting)


def _block(table: Table, corpus: int, number: int, rows: Sequence[Row]) -> Block:
    src = b"".join([row.src + b"\n" for row in rows])
    tgt = b"".join([row.tgt + b"\n" for row in rows])
    missing = frozenset(index for index, row in enumerate(rows, start=number) if row.is_missing)
    return Block(corpus, number, len(rows), src, tgt, table.encoding, missing=missing)
