"""The line contract: for any bytes in, exactly as many lines out, in order, ended as they were.

Lines end at `\\n` only. One `\\r` before it belongs to the line end and is written back; a
byte-order mark at the start is dropped; bytes that are not in the encoding become U+FFFD and are
counted.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from nmt.data.corpus import Encoding, TextStream
from nmt.errors import DataError
from nmt.files import read_when_ready
from nmt.workers import PAUSE, Pause

_BLOCK = 1 << 20  # bytes read at a time
_PATIENCE = 0.05  # seconds without input after which a pool is answered
_LONGEST_WAIT = 0.5  # seconds that a pool's first line waits for others, where they keep coming


@dataclass(frozen=True)
class Line:
    """One line of input."""

    text: str  # without its end
    end: bytes  # b"\n", b"\r\n", or b"" for a last line without one
    raw: bytes  # all that was read of it
    is_valid: bool = True  # in the encoding
    prefix: str = ""  # what its translation begins with


class LineReader:
    """Makes lines of a stream of bytes, in pools; what falls silent is answered at once."""

    def __init__(
        self,
        chunks: Iterator[bytes | Pause],
        *,
        name: str,
        encoding: Encoding,
        strict: bool = False,
        prefixes: bool = False,
        lines_read: int = 0,
    ) -> None:
        """Set up reading.

        Args:
            chunks: text in pieces of any size, and a pause where the next may be long in coming.
            name: what to call it in errors.
            encoding: of the text; chunks are in UTF-8 where its lines do not end at byte 10.
            strict: raise DataError at the first line that is not in the encoding.
            prefixes: what stands behind a line's first tab is what its translation begins with.
            lines_read: how many lines stand before the first chunk.
        """
        self.encoding = encoding
        self.name = name
        self.strict = strict
        self.prefixes = prefixes
        self.lines_read = lines_read
        self._chunks = chunks
        self._rest: list[bytes] = []  # what has been read of a line whose end has not

    def pools(
        self, max_lines: int, max_bytes: Callable[[], float] = lambda: math.inf
    ) -> Iterator[list[Line] | Pause]:
        """Yield pools of lines, and a pause where the input falls silent.

        Args:
            max_lines: of a pool.
            max_bytes: asked for each pool; the line that exceeds it is the pool's last.
        """
        pool: list[Line] = []
        begun, size, limit = 0.0, 0, 0.0
        for chunk in self._chunks:
            if isinstance(chunk, Pause):
                if pool:
                    yield pool
                    pool = []
                yield chunk
                continue
            for line in self._lines_of(chunk):
                if not pool:
                    begun, size, limit = time.monotonic(), 0, max_bytes()
                pool.append(line)
                size += len(line.raw)
                if len(pool) == max_lines or size > limit:
                    yield pool
                    pool = []
            if pool and time.monotonic() - begun >= _LONGEST_WAIT:
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
            return self._parsed(text, Line("", end, content + end))
        if self.strict:
            raise DataError(
                f"{self.name}: line {self.lines_read} is not valid {self.encoding.name}; name its "
                "--encoding, or leave out --strict"
            )
        text = content.decode(self.encoding.line_codec, errors="replace")
        if self.lines_read == 1:
            text = text.removeprefix("\ufeff")
        # A few codecs give half a surrogate pair, which is no text either.
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return self._parsed(text, Line("", end, content + end, is_valid=False))

    def _parsed(self, text: str, line: Line) -> Line:
        source, _, prefix = text.partition("\t") if self.prefixes else (text, "", "")
        return replace(line, text=source, prefix=prefix)


def pipe_chunks(stream: BinaryIO, encoding: Encoding, name: str) -> Iterator[bytes | Pause]:
    """Yield the text of a pipe or terminal as it comes, and a pause when it falls silent.

    Args:
        stream: plain or compressed.
        encoding: of the text; see `TextStream`.
        name: what to call it in errors.
    """
    text = TextStream(name, encoding, any_bytes=True)
    descriptor = stream.fileno()
    while True:
        if not select.select([descriptor], [], [], _PATIENCE)[0]:
            yield PAUSE
        block = read_when_ready(descriptor, _BLOCK)
        yield from text.feed(block, final=not block)
        if not block:
            return
