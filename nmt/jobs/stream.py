"""Translates a stream of lines in pools, in order, so that finished lines are written soon."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from nmt.data.words import has_letters
from nmt.errors import NMTError
from nmt.jobs.counts import Counts
from nmt.jobs.lines import Line, LineReader
from nmt.jobs.parallel import Pool
from nmt.system.prefetch import Pause
from nmt.translate.output import Render, Translation

_POOL_SECONDS = 7.0  # target for a pool, of the 10 that are promised
_FIRST_BYTES = 2_000  # of the first pool: some 20 lines
_MOST_GROWTH = 16  # from one pool to the next
_HALF_LIFE = 10.0  # seconds after which a measurement counts half


class Pace:
    """The size of pools, so that finished lines are written every few seconds.

    Larger pools give batches of more similar length, but an unfinished pool is lost when the job is
    stopped.
    """

    def __init__(self) -> None:
        self.max_bytes = float(_FIRST_BYTES)
        self._bytes = self._seconds = 0.0  # done, and the time it took; old ones count less
        self._last_end = -math.inf

    def finish(self, size: int, started: float) -> None:
        """Record that a pool is done, given the bytes of its lines with letters.

        Pools may overlap, so `started` may be before the end of the last one.
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


def translate_stream(
    translate: Callable[[Iterable[Pool | Pause]], Iterator[list[Translation]]],
    reader: LineReader,
    write: Callable[[bytes, bytes, Counts], object],
    counts: Counts,
    *,
    render: Render,
    pool_lines: int,
    composes: bool,
) -> None:
    """Translate all lines of `reader` in order.

    A line without a translation is written as an empty line, or as a space if it has no line end.

    write: called for each finished pool with the bytes read, the bytes to write, and the counts so
        far.
    counts: of the lines before these, updated.
    NMTError if no line of the first pool has a translation, or if lines were lost, which would be a
    bug.
    """
    pace = Pace()
    taken: deque[tuple[list[Line], float]] = deque()  # pools under way, and when they began

    def pools() -> Iterator[Pool | Pause]:
        for pool in reader.pools(pool_lines, lambda: pace.max_bytes):
            if not isinstance(pool, Pause):
                taken.append((pool, time.monotonic()))
            yield pool

    started = time.monotonic() - counts.seconds
    for translations in translate(pools()):
        pool, started_at = taken.popleft()
        pace.finish(sum(len(line.raw) for line in pool if has_letters(line.text)), started_at)
        output = bytearray()
        for line, translation in zip(pool, translations, strict=True):
            rendered = [text.encode() for text in render(counts.lines, translation)]
            # An empty last line without a line end would disappear.
            output += (line.end or b"\n").join(rendered) + line.end or b" "
            counts.lines_out += len(rendered)
            counts.add(line, translation, composes=composes)
        if counts.failed.lines == counts.lines > 1:
            raise NMTError(
                f"{reader.name}: none of the first {counts.lines:,} lines could be translated: "
                f"{counts.failed.detail}; the model may be damaged or have diverged"
            )
        counts.seconds = time.monotonic() - started
        write(b"".join(line.raw for line in pool), bytes(output), counts)
    if counts.lines != reader.lines_read:
        raise NMTError(
            f"{reader.name}: {reader.lines_read} lines came in, {counts.lines} went out; please "
            "report this"
        )
