"""A text of several tables: one after another, such as shards, or one for each language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError
from nmt.tables.formats import FileRequest
from nmt.tables.table import Row, Table


@dataclass(frozen=True)
class JoinedTables(Table):
    request: FileRequest
    parts: Sequence[Table]  # of one format; two of one language each, or any number with both
    columns: tuple[str, ...]
    encoding: Encoding

    @property
    def named(self) -> str:  # type: ignore[override]
        return self.parts[0].named

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(part.request.path for part in self.parts)

    def rows(self, advance: Advance) -> Iterator[Row]:
        return self._joined(lambda part: part.rows(advance))

    def checked_rows(self, advance: Advance) -> Iterator[Row]:
        return self._joined(lambda part: part.checked_rows(advance))

    def _joined(self, rows_of: Callable[[Table], Iterator[Row]]) -> Iterator[Row]:
        parts = map(rows_of, self.parts)
        if not self.parts[0].request.is_one_side:
            yield from chain.from_iterable(parts)
            return
        for number, (src, tgt) in enumerate(zip_longest(*parts)):
            if src is None or tgt is None:
                raise DataError(
                    f"{self.request.name}: one table ends after row {number:,}, but the other does "
                    "not; both need a row for each pair"
                )
            left_out = src.left_out or tgt.left_out
            yield Row(src.src, tgt.tgt, src.is_missing or tgt.is_missing, left_out=left_out)
