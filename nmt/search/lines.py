"""The line contract: for any bytes in, exactly as many lines out, in order, ended as they were.

Lines end at `\\n` only. One `\\r` before it belongs to the line end and is written back; a
byte-order mark at the start is dropped; bytes that are not in the encoding become U+FFFD and are
counted.
"""

from __future__ import annotations

import codecs
import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from nmt.errors import DataError, UsageError

_BLOCK = 1 << 20  # bytes read at a time
_PATIENCE = 0.05  # seconds that a pool waits for more input before it is answered


@dataclass(frozen=True)
class Line:
    """One line of input."""

    text: str  # without its end
    end: bytes  # b"\n", b"\r\n", or b"" for a last line without one


class LineReader:
    """Reads pools of lines from a file or pipe; a pipe that falls silent is answered at once."""

    def __init__(
        self, stream: BinaryIO, *, name: str, encoding: str = "utf-8", strict: bool = False
    ) -> None:
        """Set up reading.

        Args:
            stream: unbuffered or buffered; it is read by its file descriptor.
            name: what to call it in errors.
            encoding: one in which `\\n` is the byte 10.
            strict: raise DataError at the first line that is not in the encoding.
        """
        self.encoding = _checked_encoding(encoding)
        self.name = name
        self.strict = strict
        self.lines_read = 0
        self.invalid_lines = 0
        self.first_invalid_line = 0
        self._descriptor = stream.fileno()
        self._rest: list[bytes] = []  # what has been read of a line whose end has not

    def pools(self, max_lines: int) -> Iterator[list[Line]]:
        """Iterate over the input in pools of up to about `max_lines` lines."""
        pool: list[Line] = []
        while block := os.read(self._descriptor, _BLOCK):
            pool.extend(self._lines_of(block))
            while len(pool) >= max_lines:
                yield pool[:max_lines]
                pool = pool[max_lines:]
            if pool and not self._more_is_waiting():
                yield pool
                pool = []
        if any(self._rest):
            pool.append(self._line(b"".join(self._rest), b""))
            self._rest = []
        if pool:
            yield pool

    def _lines_of(self, block: bytes) -> Iterator[Line]:
        """Yield the lines that end in this block; keep the rest for the next one."""
        *complete, rest = block.split(b"\n")
        for content in complete:
            if self._rest:
                content = b"".join((*self._rest, content))
                self._rest = []
            if content.endswith(b"\r"):
                yield self._line(content[:-1], b"\r\n")
            else:
                yield self._line(content, b"\n")
        self._rest.append(rest)

    def _line(self, content: bytes, end: bytes) -> Line:
        self.lines_read += 1
        if self.lines_read == 1 and self.encoding == "utf-8":
            content = content.removeprefix(codecs.BOM_UTF8)
        try:
            return Line(content.decode(self.encoding), end)
        except UnicodeDecodeError as error:
            if self.strict:
                raise DataError(
                    f"{self.name}: line {self.lines_read} is not valid {self.encoding} "
                    f"({error.reason}); name its --encoding, or leave out --strict"
                ) from None
            self.invalid_lines += 1
            self.first_invalid_line = self.first_invalid_line or self.lines_read
            return Line(content.decode(self.encoding, errors="replace"), end)

    def _more_is_waiting(self) -> bool:
        # Regular files always are ready, so only pipes and terminals cut a pool short.
        return bool(select.select([self._descriptor], [], [], _PATIENCE)[0])


def _checked_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        fits = "\n".encode(name) == b"\n" and isinstance(b"a".decode(name), str)
    except (LookupError, UnicodeError, TypeError):
        fits = False
    if not fits:
        raise UsageError(
            f"unknown encoding {encoding!r}, or one whose lines do not end at the byte 10; try "
            "utf-8, windows-1252 or iso-8859-15, or convert the text with iconv"
        )
    return name
