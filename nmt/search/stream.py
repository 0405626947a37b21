"""A stream of lines through a translator: pools in, pools out, nothing lost or shifted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nmt.data.workers import Pause
from nmt.errors import NMTError
from nmt.search.lines import Line, LineReader
from nmt.search.render import Render
from nmt.search.translation import Translation
from nmt.search.translators import Pool

TranslatePools = Callable[[Iterable[Pool | Pause]], Iterator[list[Translation]]]
"""Pools of lines to their translations, in order."""


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
        pool_lines: lines that are translated together.

    Raises:
        NMTError: if no line of the first pool has a translation; or if not as many lines went out
            as came in, which would be an error of ours.
    """
    taken: deque[list[Line]] = deque()

    def texts() -> Iterator[Pool | Pause]:
        for pool in reader.pools(pool_lines):
            if isinstance(pool, Pause):
                yield pool
            else:
                taken.append(pool)
                yield [(line.text, line.prefix) for line in pool]

    started = time.monotonic() - counts.seconds
    for found in translate(texts()):
        pool = taken.popleft()
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
