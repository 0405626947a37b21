"""The line contract: for any bytes in, exactly as many lines out, in order, ended as they were.

Lines end at `\\n` only. One `\\r` before it belongs to the line end and is written back; a
byte-order mark at the start is dropped; bytes that are not in the encoding become U+FFFD and are
counted.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from nmt.data.corpus import Encoding
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
        self.encoding = Encoding.find(encoding)
        if not self.encoding.by_line:
            raise UsageError(
                f"--encoding {encoding}: its lines do not end at the byte 10; make the text UTF-8 "
                "first, with iconv"
            )
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
        text = self.encoding.decode(content, number=self.lines_read)
        if text is not None:
            return Line(text, end)
        if self.strict:
            raise DataError(
                f"{self.name}: line {self.lines_read} is not valid {self.encoding.name}; name its "
                "--encoding, or leave out --strict"
            )
        self.invalid_lines += 1
        self.first_invalid_line = self.first_invalid_line or self.lines_read
        text = content.decode(self.encoding.name, errors="replace")
        if self.lines_read == 1:
            text = text.removeprefix("\ufeff")
        # A few codecs give half a surrogate pair, which is no text either.
        return Line(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), end)

    def _more_is_waiting(self) -> bool:
        # Regular files always are ready, so only pipes and terminals cut a pool short.
        return bool(select.select([self._descriptor], [], [], _PATIENCE)[0])
