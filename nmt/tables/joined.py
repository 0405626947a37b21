"""A text of several tables: one after another, such as shards, or one for each language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    parts: tuple[Table, ...]  # of one format
    are_sides: bool  # whether they are the source and the target
    columns: tuple[str, ...]
    encoding: Encoding
    quoted: bool
    unit: str
    named: str
    fault: str

    @classmethod
    def of(cls, request: FileRequest, parts: Sequence[Table], *, are_sides: bool) -> JoinedTables:
        first, columns = parts[0], parts[0].columns
        if are_sides:
            columns = (parts[0].columns[0], parts[1].columns[1])
        return cls(
            request,
            tuple(parts),
            are_sides,
            columns,
            first.encoding,
            any(part.quoted for part in parts),
            first.unit,
            first.named,
            first.fault,
        )

    @property
    def sides(self) -> tuple[str, str]:
        if self.are_sides:
            return self.parts[0].sides[0], self.parts[1].sides[1]
        src, tgt = self.columns or self.request.langs
        return f"{self.request.name} {src}", f"{self.request.name} {tgt}"

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(chain.from_iterable(part.files for part in self.parts))

    def rows(self, advance: Advance) -> Iterator[Row]:
        return self._joined([part.rows(advance) for part in self.parts])

    def checked_rows(self, advance: Advance) -> Iterator[Row]:
        return self._joined([part.checked_rows(advance) for part in self.parts])

    def _joined(self, parts: Sequence[Iterable[Row]]) -> Iterator[Row]:
        if not self.are_sides:
            yield from chain.from_iterable(parts)
            return
        for number, (src, tgt) in enumerate(zip_longest(*parts)):
            if src is None or tgt is None:
                names = [part.request.name for part in self.parts]
                shorter, longer = names if src is None else reversed(names)
                raise DataError(
                    f"{shorter} ends after row {number:,}, but {longer} does not; two tables need "
                    "a row for each pair"
                )
            left_out = src.left_out or tgt.left_out
            if src.is_missing or tgt.is_missing:
                yield Row(b"\t".join((src.src, tgt.src)), b"", True, left_out=left_out)
            else:
                yield Row(src.src, tgt.tgt, left_out=left_out)
