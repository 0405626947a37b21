"""Blocks of bytes to lines of text, with every character looked up once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.blocks import Block
from nmt.data.characters import SPACE, Classes, classes_for
from nmt.data.corpus import Encoding

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TextSide:
    """The lines of one side of a block."""

    lines: list[str]
    """Without their ends; empty where the bytes are not valid."""
    is_bad: Mask  # (lines,) whether the bytes are not valid
    classes: Classes
    """What each code point is, in the side's language."""

    @cached_property
    def _bounds(self) -> Counts:
        """Where each line begins in the joined text, and its end: (lines + 1,)."""
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

    @property
    def visible(self) -> Counts:
        """Characters of each line that are no white space: (lines,)."""
        return self.lengths - self.count(SPACE)

    def count(self, bits: int) -> Counts:
        """Return how many characters of each line are of a class: (lines,)."""
        found = np.flatnonzero(self._characters & np.uint8(bits))
        return np.diff(np.searchsorted(found, self._bounds))

    def sums(self, table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the sum over each line of what a table has for its characters: (lines,).

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
    """Return the text of a block's side, whose first line has the given number (from 1)."""
    is_bad = np.zeros(lines, np.bool_)
    codec = encoding.line_codec
    try:
        text = raw.decode(codec)
        if codec != "utf-8":
            text.encode()  # a few codecs decode to what is no text: half a surrogate pair
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
    """Return line `at` (from 0) of a block's side for people to read, whatever its bytes are."""
    line = raw.split(b"\n", at + 1)[at].removesuffix(b"\r")
    return line.decode(encoding.line_codec, "backslashreplace")
