"""Lines of a stream of bytes, many at a time.

It looks for line feeds in large chunks, which is far faster than a Python loop over lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError

BLOCK_LINES = 4096
# Lines of several megabytes occur, and 4,096 of them would not fit into memory.
BLOCK_BYTES = 1 << 24

LONGEST_LINE = 1 << 26
CHUNKS_AHEAD = 4  # read and decompressed by a thread, of about a megabyte each
LINE_FEED = ord("\n")

Advance = Callable[[int], object]  # called with the number of bytes of a file that have been read


class Lines:
    def __init__(self, name: str, chunks: Iterator[bytes]) -> None:
        self._name = name
        self._chunks = chunks
        self._buffer = b""
        self._at = 0  # start of the first line that is not taken
        # The end of each whole line that is not taken.
        self._ends: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._exhausted = False

    def ready(self) -> int:
        """Return how many lines can be taken at once: 0 only at the end."""
        while not self._exhausted and not self._is_full():
            self._refill()
        within = int(np.searchsorted(self._ends, self._at + BLOCK_BYTES, side="right"))
        return min(len(self._ends), BLOCK_LINES, max(1, within))

    def take(self, lines: int) -> bytes:
        start, self._at = self._at, int(self._ends[lines - 1])
        self._ends = self._ends[lines:]
        return self._buffer[start : self._at]

    def _is_full(self) -> bool:
        held = len(self._buffer) - self._at
        return len(self._ends) >= BLOCK_LINES or (held > BLOCK_BYTES and len(self._ends) > 0)

    def _refill(self) -> None:
        left = self._buffer[self._at :]
        self._ends = self._ends - self._at
        self._at = 0
        if chunk := next(self._chunks, b""):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == LINE_FEED)
            self._ends = np.concatenate([self._ends, ends + (len(left) + 1)])
        else:
            self._exhausted = True
            if left and (not len(self._ends) or self._ends[-1] < len(left)):
                self._ends = np.append(self._ends, len(left))  # the last line has no line feed
        self._buffer = left + chunk
        unfinished = len(self._buffer) - (int(self._ends[-1]) if len(self._ends) else 0)
        if unfinished > LONGEST_LINE:
            raise DataError(
                f"{self._name} has a line of more than {LONGEST_LINE >> 20} MiB; use text with one "
                "sentence per line"
            )
