"""A stream of lines through a translator: pools in, pools out, nothing lost or shifted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nmt.data.workers import Pause
from nmt.errors import NMTError
from nmt.search.lines import Line, LineReader
from nmt.search.translator import Translation

TranslatePools = Callable[[Iterable[list[str] | Pause]], Iterator[list[list[Translation]]]]
"""Pools of lines to their translations, in order."""

Render = Callable[[int, Sequence[Translation]], list[str]]
"""Line number from 0 and its translations, best first, to the lines that are written for it."""


def render_text(_number: int, translations: Sequence[Translation]) -> list[str]:
    """Return the best translation."""
    return [translations[0].text]


def render_scored(_number: int, translations: Sequence[Translation]) -> list[str]:
    """Return score and best translation, tab-separated."""
    return [f"{translations[0].score:.6f}\t{translations[0].text}"]


def render_n_best(number: int, translations: Sequence[Translation]) -> list[str]:
    """Return all translations, a line each, in the Moses form."""
    return [f"{number} ||| {t.text} ||| {t.score:.6f}" for t in translations]


@dataclass
class Counts:
    """What went in and out so far."""

    lines: int = 0
    lines_out: int = 0  # more with n-best lists
    cut_lines: int = 0  # translated in pieces
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
        self.tokens += len(best.tokens)
        if not line.is_valid:
            self.invalid_lines += 1
            self.first_invalid_line = self.first_invalid_line or self.lines
        if best.error:
            self.failed_lines += 1
            self.first_failed_line = self.first_failed_line or self.lines
            self.first_error = self.first_error or best.error
        elif best.pieces > 1:
            self.cut_lines += 1
            self.first_cut_line = self.first_cut_line or self.lines


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

    A line that has no translation is written as an empty one.

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

    def texts() -> Iterator[list[str] | Pause]:
        for pool in reader.pools(pool_lines):
            if isinstance(pool, Pause):
                yield pool
            else:
                taken.append(pool)
                yield [line.text for line in pool]

    started = time.monotonic() - counts.seconds
    for found in translate(texts()):
        pool = taken.popleft()
        output = bytearray()
        for line, translations in zip(pool, found, strict=True):
            rendered = [text.encode() for text in render(counts.lines, translations)]
            output += (line.end or b"\n").join(rendered) + line.end
            counts.lines_out += len(rendered)
            counts.add(line, translations[0])
        if counts.failed_lines == counts.lines > 1:
            raise NMTError(
                f"{reader.name}: none of the first {counts.lines:,} lines could be translated: "
                f"{counts.first_error}; the model may be damaged or have diverged"
            )
        counts.seconds = time.monotonic() - started
        write(b"".join(line.raw for line in pool), bytes(output), counts)
    if counts.lines != reader.lines_read:
        raise NMTError(
            f"{reader.name}: {reader.lines_read} lines came in, {counts.lines} went out; "
            "please report this"
        )
