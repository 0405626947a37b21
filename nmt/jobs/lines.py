"""Reads lines from bytes, so that exactly as many lines can be written, with the same ends.

Lines end at `\\n` only. One `\\r` before it belongs to the line end and is written back. A
byte-order mark at the start is dropped. Invalid bytes become U+FFFD and are counted.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import BinaryIO, NamedTuple

from nmt.data.corpus import Encoding, TextStream
from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.system.files import read_when_ready
from nmt.system.prefetch import PAUSE, Pause
from nmt.translate.context import Before

_BLOCK = 1 << 20  # bytes read at a time
_PATIENCE = 0.05  # seconds without input after which a pool is complete
_LONGEST_WAIT = 0.5  # seconds that a pool's first line waits while others keep coming


class Line(NamedTuple):
    text: str  # without its end
    prefix: str = ""  # its translation must begin with it
    end: bytes = b"\n"  # or b"\r\n", or b"" for a last line without one
    raw: bytes = b""  # as read, with its end
    is_valid: bool = True  # whether its bytes are valid in the encoding
    context: tuple[str, ...] = ()  # lines before it in its document, if they are needed
    unit: MarkedLines | None = None  # its markup, if it is of a document, as are all in its pool


@dataclass
class LineReader:
    """Reads pools of lines from a stream of bytes. If the stream pauses, the pool is complete."""

    chunks: Iterator[bytes | Pause]
    """Bytes of the text, cut anywhere, and a pause if the next may take long. They are in UTF-8 if
    the lines of `encoding` do not end at byte 10."""
    _: KW_ONLY
    name: str
    encoding: Encoding
    strict: bool = False  # DataError at the first invalid line
    prefixes: bool = False
    """Whether a line's text after its first tab is the prefix of its translation."""
    lines_read: int = 0
    before: Before = field(default_factory=lambda: Before(0))
    """The last lines before these, if lines need context."""
    _rest: list[bytes] = field(default_factory=list, init=False)  # beginning of an incomplete line

    def pools(
        self, max_lines: int, max_bytes: Callable[[], float] = lambda: math.inf
    ) -> Iterator[list[Line] | Pause]:
        """Yield pools of lines, and a pause if the input pauses.

        max_bytes: called for each pool. The line that exceeds it is the pool's last.
        """
        pool: list[Line] = []
        begun, size, limit = 0.0, 0, 0.0
        for chunk in self.chunks:
            for line in () if isinstance(chunk, Pause) else self._lines_of(chunk):
                if not pool:
                    begun, size, limit = time.monotonic(), 0, max_bytes()
                pool.append(line)
                size += len(line.raw)
                if len(pool) == max_lines or size > limit:
                    yield pool
                    pool = []
            if pool and (isinstance(chunk, Pause) or time.monotonic() - begun >= _LONGEST_WAIT):
                yield pool
                pool = []
            if isinstance(chunk, Pause):
                yield chunk
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
        text, prefix = self.encoding.decode(content, number=self.lines_read), ""
        is_valid = text is not None
        if text is None:
            text = self._repaired(content)
        if self.prefixes:
            text, _, prefix = text.partition("\t")
        return Line(text, prefix, end, content + end, is_valid, self.before.take(text))

    def _repaired(self, content: bytes) -> str:
        """Return an invalid line's text, with U+FFFD for invalid bytes; DataError if strict."""
        if self.strict:
            raise DataError(
                f"{self.name}: line {self.lines_read} is not valid {self.encoding.name}; give its "
                "--encoding, or leave out --strict"
            )
        text = content.decode(self.encoding.line_codec, errors="replace")
        if self.lines_read == 1:
            text = text.removeprefix("\ufeff")
        # A few codecs give lone surrogates, which are not text either.
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def pipe_chunks(stream: BinaryIO, encoding: Encoding, name: str) -> Iterator[bytes | Pause]:
    """Yield the text of a pipe or terminal as it comes, and a pause if nothing comes.

    It may be compressed (see `TextStream`). Errors call it `name`.
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
