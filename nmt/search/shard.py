"""A part of a file's lines, so that many machines can each translate one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from nmt.errors import UsageError


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `count` parts, as equal as can be, of neighbouring lines."""

    number: int  # from 1
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `I/N`.

        Raises:
            UsageError: if it is not of that form, or I is not among 1 to N.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text}: is not I/N, such as 3/8, with I from 1 to N")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def lines(self, total: int) -> tuple[int, int]:
        """Return its first line, counted from 0, and the first behind it."""
        return (self.number - 1) * total // self.count, self.number * total // self.count


def count_lines(chunks: Iterator[bytes]) -> int:
    """Count lines, one without a newline at the end among them."""
    newlines, end = 0, b"\n"
    for chunk in chunks:
        newlines += chunk.count(b"\n")
        end = chunk[-1:] or end
    return newlines + (end != b"\n")


def cut_lines(chunks: Iterator[bytes], first: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of lines `first` to `end` - 1, counted from 0."""
    line = 0  # which the chunk begins with, or goes on with
    for chunk in chunks:
        if line >= end:
            return
        newlines = chunk.count(b"\n")
        start = _behind(chunk, first - line)
        stop = _behind(chunk, end - line)
        if start < stop:
            yield chunk[start:stop]
        line += newlines


def _behind(chunk: bytes, newlines: int) -> int:
    """Return the place behind so many newlines; the chunk's end, if it has fewer."""
    if newlines > chunk.count(b"\n"):
        return len(chunk)
    place = 0
    for _ in range(newlines):
        place = chunk.index(b"\n", place) + 1
    return place
