"""A stream of lines through a translator: pools in, pools out, nothing lost or shifted."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nmt.errors import NMTError
from nmt.translate.lines import Line, LineReader
from nmt.translate.output import Render, Translation
from nmt.translate.parallel import Pool
from nmt.workers import Pause

TranslatePools = Callable[[Iterable[Pool | Pause]], Iterator[list[Translation]]]
"""Pools of lines to their translations, in order."""


_POOL_SECONDS = 7.0  # that a pool should take, of the 10 that are promised
_FIRST_BYTES = 2_000  # of the first pools, before anything is known: some 20 lines
_MOST_GROWTH = 16  # from one pool to the next
_HALF_LIFE = 10.0  # seconds after which what was measured counts half


class Pace:
    """How large pools may be, so that finished lines are written every few seconds.

    The larger a pool, the better lines of one length can be found to go together; but a pool that
    is not finished when a job is stopped has to be done again.
    """

    def __init__(self) -> None:
        self.max_bytes = float(_FIRST_BYTES)
        self._bytes = self._seconds = (
            0.0  # done, and the time it took; what is long ago counts less
        )
        self._last_end = -math.inf

    def finish(self, size: int, started: float) -> None:
        """Learn that a pool is done.

        Args:
            size: bytes of its lines that are not blank.
            started: when it was handed out. Several may be under way.
        """
        now = time.monotonic()
        seconds = now - max(started, self._last_end)
        self._last_end = now
        if not size:
            return
        weight = 0.5 ** (seconds / _HALF_LIFE)
        self._seconds = weight * self._seconds + seconds
        self._bytes = weight * self._bytes + size
        in_time = _POOL_SECONDS * self._bytes / max(self._seconds, 1e-9)
        self.max_bytes = min(in_time, _MOST_GROWTH * max(self.max_bytes, size))


@dataclass
class Counts:
    """What went in and out so far."""

    skipped: int = 0  # lines of the input before the first of these
    lines: int = 0
    lines_out: int = 0  # more with n-best lists
    split_lines: int = 0  # translated in pieces, or sentences
    cut_lines: int = 0  # longer than the model knows, or with such sentences
    first_cut_line: int = 0  # from 1; 0: none
    invalid_lines: int = 0  # not in the encoding
    first_invalid_line: int = 0
    failed_lines: int = 0
    first_failed_line: int = 0
    first_error: str = ""  # why it failed
    tokens: int = 0  # of the best translations
    seconds: float = 0.0

    def add(self, line: Line, best: Translation) -> None:
        """Count a line and its best translation."""
        self.lines += 1
        number = self.skipped + self.lines
        self.tokens += len(best.tokens)
        if not line.is_valid:
            self.invalid_lines += 1
            self.first_invalid_line = self.first_invalid_line or number
        if best.error:
            self.failed_lines += 1
            self.first_failed_line = self.first_failed_line or number
            self.first_error = self.first_error or best.error
            return
        self.split_lines += best.pieces > 1
        if best.is_cut:
            self.cut_lines += 1
            self.first_cut_line = self.first_cut_line or number


def translate_stream(
    translate: TranslatePools,
    reader: LineReader,
    write: Callable[[bytes, bytes, Counts], object],
    counts: Counts,
    *,
    render: Render,
    pool_lines: int,
) -> None:
    """Translate all lines of `reader` in order.

    A line that has no translation is written as an empty one; as a space, if it has no end.

    Args:
        translate: the pools of lines.
        reader: the lines.
        write: called for each pool when it is done, with what was read for it, what is to be
            written, and what has been counted with it.
        counts: of the lines before these; counted on.
        render: makes what is written for a line.
        pool_lines: lines that are translated together, at most: see `Pace`.

    Raises:
        NMTError: if no line of the first pool has a translation; or if not as many lines went out
            as came in, which would be an error of ours.
    """
    pace = Pace()
    taken: deque[tuple[list[Line], float]] = deque()  # pools, and when they were handed out

    def texts() -> Iterator[Pool | Pause]:
        for pool in reader.pools(pool_lines, lambda: pace.max_bytes):
            if isinstance(pool, Pause):
                yield pool
            else:
                taken.append((pool, time.monotonic()))
                yield [(line.text, line.prefix) for line in pool]

    started = time.monotonic() - counts.seconds
    for found in translate(texts()):
        pool, handed_out = taken.popleft()
        pace.finish(sum(len(line.raw) for line in pool if line.text.strip()), handed_out)
        output = bytearray()
        for line, translation in zip(pool, found, strict=True):
            rendered = [
                text.encode() for text in render(counts.skipped + counts.lines, translation)
            ]
            # A last line without its end would disappear if nothing stood in it.
            output += (line.end or b"\n").join(rendered) + line.end or b" "
            counts.lines_out += len(rendered)
            counts.add(line, translation)
        if counts.failed_lines == counts.lines > 1:
            raise NMTError(
                f"{reader.name}: none of the first {counts.lines:,} lines could be translated: "
                f"{counts.first_error}; the model may be damaged or have diverged"
            )
        counts.seconds = time.monotonic() - started
        write(b"".join(line.raw for line in pool), bytes(output), counts)
    if counts.skipped + counts.lines != reader.lines_read:
        raise NMTError(
            f"{reader.name}: {reader.lines_read - counts.skipped} lines came in, {counts.lines} "
            "went out; please report this"
        )
