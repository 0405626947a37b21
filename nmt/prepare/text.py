"""Parallel text in blocks: read as bytes, decoded to lines in the workers.

A `Block` is a worker's unit of work: the same few thousand lines of both sides, as bytes. Reading
looks for line feeds in large chunks of the file, which is far faster than a Python loop over lines.
A `TextSide` is one side of a decoded block. It classifies all of its characters in one lookup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Encoding, ParallelText, read_chunks
from nmt.errors import DataError
from nmt.prepare.characters import CONTROL, FOREIGN, SIGN, SPACE, Classes, classes_for

BLOCK_LINES = 4096
# Lines of several megabytes occur, and 4,096 of them would not fit into memory.
BLOCK_BYTES = 1 << 24
LONGEST_LINE = 1 << 26

_LINE_FEED = ord("\n")

Rows = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Block:
    """Consecutive lines of a parallel text, or some of them."""

    corpus: int
    """Index of the parallel text in its split, from 0."""
    number: int
    """Line number of the first line, from 1."""
    lines: int
    src: bytes
    """The source lines as in the file; in UTF-8 if the encoding is not by line."""
    tgt: bytes
    numbers: tuple[int, ...] = ()
    """Line numbers, if the lines are not consecutive."""

    def line_number(self, row: int) -> int:
        """Return the line number in the text (from 1) of a row of the block (from 0)."""
        return self.numbers[row] if self.numbers else self.number + row

    def select(self, rows: Rows) -> Block:
        """Return the lines at `rows` (from 0, ascending, at least one) as a block.

        A row may occur several times.
        """
        src, tgt = (_select(raw, rows) for raw in (self.src, self.tgt))
        numbers = tuple(self.line_number(row) for row in rows.tolist())
        return Block(self.corpus, numbers[0], len(rows), src, tgt, numbers)


def _select(raw: bytes, rows: Rows) -> bytes:
    if not raw.endswith(b"\n"):  # else the last line would run into its own repetition
        raw += b"\n"
    ends = np.flatnonzero(np.frombuffer(raw, np.uint8) == _LINE_FEED) + 1
    bounds = np.concatenate([[0], ends])
    return b"".join([raw[bounds[row] : bounds[row + 1]] for row in rows])


def read_blocks(
    text: ParallelText, encoding: Encoding, *, corpus: int = 0, start: int = 1
) -> Iterator[Block]:
    """Yield the lines from `start` on; DataError if one side ends before the other.

    The ends of blocks depend only on the bytes of the text and on `start`.
    """
    sides = [_Side(text.src, encoding), _Side(text.tgt, encoding)]
    number = 1
    while lines := min(side.ready() for side in sides):
        if number < start:
            lines = min(lines, start - number)
        src, tgt = (side.take(lines) for side in sides)
        if number >= start:
            yield Block(corpus, number, lines, src, tgt)
        number += lines
    if any(side.ready() for side in sides):
        shorter = text.tgt if sides[0].ready() else text.src
        raise DataError(
            f"{shorter} ends after line {number - 1:,}, but its other side does not; both sides of "
            "a parallel text need one line for each pair"
        )


class _Side:
    """The lines of one file, taken from the front."""

    def __init__(self, path: Path, encoding: Encoding) -> None:
        self._path = path
        self._chunks = read_chunks(path, encoding)
        self._buffer = b""
        self._at = 0  # start of the first line that is not taken
        self._ends: Rows = np.zeros(0, np.int64)  # end of each whole line that is not taken
        self._exhausted = False

    def ready(self) -> int:
        """Return how many lines can be taken at once: 0 only at the end of the file."""
        while not self._exhausted and not self._is_full():
            self._refill()
        within = int(np.searchsorted(self._ends, self._at + BLOCK_BYTES, side="right"))
        return min(len(self._ends), BLOCK_LINES, max(1, within))

    def take(self, lines: int) -> bytes:
        """Return the next lines as bytes."""
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
        chunk = next(self._chunks, b"")
        if chunk:
            found = np.flatnonzero(np.frombuffer(chunk, np.uint8) == _LINE_FEED)
            self._ends = np.concatenate([self._ends, found + (len(left) + 1)])
        else:
            self._exhausted = True
            if left and (not len(self._ends) or self._ends[-1] < len(left)):
                self._ends = np.append(self._ends, len(left))  # the last line has no line feed
        self._buffer = left + chunk
        unfinished = len(self._buffer) - (int(self._ends[-1]) if len(self._ends) else 0)
        if unfinished > LONGEST_LINE:
            raise DataError(
                f"{self._path} has a line of more than {LONGEST_LINE >> 20} MiB; use text with one "
                "sentence per line"
            )


@dataclass(frozen=True)
class TextSide:
    """The lines of one side of a block."""

    lines: list[str]
    """The lines without line ends; empty if the bytes are not valid."""
    is_bad: Mask  # (lines,) whether the bytes are not valid
    classes: Classes
    """The class of each code point, in the side's language."""

    @cached_property
    def _bounds(self) -> Counts:
        """The start of each line in the joined text, and the end of the text: (lines + 1,)."""
        lengths = np.fromiter(map(len, self.lines), np.int64, len(self.lines))
        return np.concatenate([[0], np.cumsum(lengths)])

    @cached_property
    def _codes(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The code point of every character of the joined text."""
        joined = "".join(self.lines)
        if joined.isascii():
            return np.frombuffer(joined.encode("ascii"), np.uint8)
        return np.frombuffer(joined.encode("utf-32-le"), "<u4")

    @cached_property
    def _characters(self) -> npt.NDArray[np.uint8]:
        """The class of every character of the joined text."""
        return self.classes.take(self._codes)

    @property
    def lengths(self) -> Counts:
        """Characters of each line: (lines,)."""
        return np.diff(self._bounds)

    @cached_property
    def visible(self) -> Counts:
        """Characters of each line that are not white space: (lines,)."""
        return self.lengths - self._count(SPACE)

    @property
    def controls(self) -> Counts:
        """Control characters of each line: (lines,)."""
        return self._count(CONTROL)

    @cached_property
    def signs(self) -> Counts:
        """Visible characters of each line that are not letters: (lines,)."""
        return self._count(SIGN)

    @property
    def letters(self) -> Counts:
        """Letters of each line: (lines,)."""
        return self.visible - self.signs

    @property
    def foreign(self) -> Counts:
        """Letters of each line in scripts that the language does not use: (lines,)."""
        return self._count(FOREIGN)

    def _count(self, bits: int) -> Counts:
        """Return how many characters of each line have any of these bits: (lines,)."""
        found = np.flatnonzero(self._characters & np.uint8(bits))
        return np.diff(np.searchsorted(found, self._bounds))

    def sums(self, table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the sum of the table's values over the characters of each line: (lines,).

        table: (0x110000,) by code point. Sums are modulo 2^32.
        """
        totals = np.zeros(len(self._codes) + 1, np.uint32)
        np.cumsum(table.take(self._codes), out=totals[1:])
        return np.diff(totals[self._bounds])


@dataclass(frozen=True)
class BlockDecoder:
    """Turns blocks into text, in the encoding and the languages of the corpus."""

    encoding: Encoding
    langs: tuple[str, str]

    def __call__(self, block: Block) -> tuple[TextSide, TextSide]:
        """Return the source and the target side of a block."""
        src, tgt = (
            decode_side(
                raw, self.encoding, classes_for(lang), number=block.number, lines=block.lines
            )
            for raw, lang in zip((block.src, block.tgt), self.langs, strict=True)
        )
        return src, tgt


def decode_side(
    raw: bytes, encoding: Encoding, classes: Classes, *, number: int, lines: int
) -> TextSide:
    """Return the decoded side of a block whose first line has the given number (from 1)."""
    is_bad = np.zeros(lines, np.bool_)
    codec = encoding.line_codec
    try:
        text = raw.decode(codec)
        if codec != "utf-8":
            text.encode()  # a few codecs decode to lone surrogates, which are not text
    except UnicodeError:
        decoded = [
            encoding.decode(line.removesuffix(b"\r"), number=number + at)
            for at, line in enumerate(raw.split(b"\n")[:lines])
        ]
        is_bad = np.fromiter((line is None for line in decoded), np.bool_, lines)
        return TextSide([line or "" for line in decoded], is_bad, classes)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    found = text.split("\n")
    if text.endswith("\n"):
        found.pop()
    if number == 1:
        found[0] = found[0].removeprefix("\ufeff")
    return TextSide(found, is_bad, classes)


def show_line(raw: bytes, at: int, encoding: Encoding) -> str:
    """Return line `at` (from 0) of a block's side in printable form, whatever its bytes are."""
    line = raw.split(b"\n", at + 1)[at].removesuffix(b"\r")
    return line.decode(encoding.line_codec, "backslashreplace")
