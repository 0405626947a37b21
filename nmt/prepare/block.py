"""The forms of a pair on its way through a worker.

- A `Block` is a worker's unit of work: the same few thousand lines of both sides, as bytes.
- `Pairs` are the lines of a decoded block. A `TextSide` classifies all characters of a side in one
  lookup.
- `Work` is what the steps of a worker have made of a block. A step adds to it, or drops pairs.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Encoding
from nmt.data.language_tokens import tagged
from nmt.data.line_blocks import LINE_FEED
from nmt.data.manifest import FlawRecord
from nmt.data.shards import TokenRows
from nmt.prepare import characters
from nmt.prepare.cleaning_options import WIDE_LETTER

Rows = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]
Verdicts = npt.NDArray[np.uint8]
"""One code for each pair: `KEPT`, or the code of the rule that dropped it."""
Overlaps = npt.NDArray[np.int16]
"""How much of one line another has, in units of 1 / 10,000; see `nmt.prepare.duplicates`."""

KEPT = 0


class Misfit(NamedTuple):
    """Where the sides of a block begin to be out of step."""

    row: int  # of the first bad pair
    shift: int  # how many lines later than their sources the targets come; 0: they do not match


class Judgement(NamedTuple):
    """What the rules that need no tokens have found in a block, for the pass that encodes it."""

    packed: bytes
    packed_nearest: bytes
    flaws: tuple[FlawRecord, ...]
    misfit: Misfit | None

    @classmethod
    def of(cls, work: Work) -> Judgement:
        packed, nearest = (
            zlib.compress(found.tobytes(), level=1) for found in (work.verdicts, work.nearest)
        )
        return cls(packed, nearest, work.flaws, work.misfit)

    @property
    def verdicts(self) -> Verdicts:
        return np.frombuffer(zlib.decompress(self.packed), np.uint8)

    @property
    def nearest(self) -> Overlaps:
        return np.frombuffer(zlib.decompress(self.packed_nearest), np.int16)


Judgements = dict[tuple[int, int], Judgement]
"""By the index of the text and the number of the block's first line."""


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
    encoding: Encoding
    numbers: tuple[int, ...] = ()
    """Line numbers, if the lines are not consecutive."""
    missing: frozenset[int] = frozenset()
    """Line numbers of pairs that lack a side. Their source says what is there instead."""
    starts: tuple[int, ...] = ()
    """Line numbers at which documents begin, if the text says so without blank lines."""
    tag: str = ""
    """The tag put before each source line; may be empty."""
    langs: tuple[str, str] = ("", "")
    """Languages of source and target, by which characters are judged."""
    judgement: Judgement | None = None
    """The judgement of an earlier pass, if that pass has judged exactly these lines."""

    def line_number(self, row: int) -> int:
        """Return the line number in the text (from 1) of a row of the block (from 0)."""
        return self.numbers[row] if self.numbers else self.number + row

    def shown(self, row: int) -> tuple[str, str]:
        """Return the source and target of a row (from 0), whatever their bytes are."""
        raw = (side.split(b"\n", row + 1)[row].removesuffix(b"\r") for side in (self.src, self.tgt))
        src, tgt = (line.decode(self.encoding.line_codec, "backslashreplace") for line in raw)
        return src, tgt

    def select(self, rows: Rows) -> Block:
        """Return the lines at `rows` (from 0, ascending, at least one) as a block.

        A row may occur several times.
        """
        src, tgt = (_select(raw, rows) for raw in (self.src, self.tgt))
        numbers = tuple(self.line_number(row) for row in rows.tolist())
        return replace(self, number=numbers[0], lines=len(rows), src=src, tgt=tgt, numbers=numbers)

    def followed_by(self, other: Block) -> Block:
        """Return this block and the lines of the next one as one block."""
        src, tgt, missing = self.src + other.src, self.tgt + other.tgt, self.missing | other.missing
        lines = self.lines + other.lines
        return replace(self, lines=lines, src=src, tgt=tgt, missing=missing, judgement=None)


def _select(raw: bytes, rows: Rows) -> bytes:
    if not raw.endswith(b"\n"):  # else the last line would run into its own repetition
        raw += b"\n"
    bounds = np.append(0, np.flatnonzero(np.frombuffer(raw, np.uint8) == LINE_FEED) + 1)
    return b"".join([raw[bounds[row] : bounds[row + 1]] for row in rows])


@dataclass(frozen=True)
class TextSide:
    """The lines of one side of a block."""

    lines: list[str]
    """The lines without line ends; empty if the bytes are not valid."""
    is_bad: Mask  # (lines,) whether the bytes are not valid
    classes: characters.Classes
    """The class of each code point, in the side's language."""
    _running: dict[int, npt.NDArray[np.uint32]] = field(default_factory=dict, repr=False)
    """The sums that `running_sums` has computed, by the identity of the table."""

    @cached_property
    def bounds(self) -> Counts:
        """The start of each line in the joined text, and the end of the text: (lines + 1,)."""
        lengths = np.fromiter(map(len, self.lines), np.int64, len(self.lines))
        return np.concatenate([[0], np.cumsum(lengths)])

    @cached_property
    def codes(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The code point of every character of the joined text."""
        joined = "".join(self.lines)
        if joined.isascii():
            return np.frombuffer(joined.encode("ascii"), np.uint8)
        return np.frombuffer(joined.encode("utf-32-le"), "<u4")

    @cached_property
    def _characters(self) -> npt.NDArray[np.uint8]:
        """The class of every character of the joined text."""
        return self.classes.take(self.codes)

    @property
    def lengths(self) -> Counts:
        """Characters of each line: (lines,)."""
        return np.diff(self.bounds)

    @cached_property
    def visible(self) -> Counts:
        """Characters of each line that are not white space: (lines,)."""
        return self.lengths - self.count(characters.SPACE)

    @property
    def beyond_ascii(self) -> Mask:
        """Which lines have characters beyond ASCII: (lines,)."""
        found = np.zeros(len(self.lines), np.bool_)
        found[self.rows_of(np.flatnonzero(self.codes > 127))] = True
        return found

    @cached_property
    def signs(self) -> Counts:
        """Visible characters of each line that are not letters: (lines,)."""
        return self.count(characters.SIGN)

    @property
    def letters(self) -> Counts:
        """Letters of each line: (lines,)."""
        return self.visible - self.signs

    def count(self, bits: int) -> Counts:
        """Return how many characters of each line have any of these bits: (lines,)."""
        return np.diff(np.searchsorted(self._places(bits), self.bounds))

    def _places(self, bits: int) -> Rows:
        """Return where the joined text has characters with any of these bits: (places,)."""
        return np.flatnonzero((self._characters & np.uint8(bits)) != 0)  # of bytes: 5 times slower

    def sign_sums(self, table: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return the sum of the table's values over the signs of each line: (lines,).

        table: (0x110000,) by code point. Sums are modulo 2^64.
        """
        places = self._places(characters.SIGN)
        totals = np.zeros(len(places) + 1, np.uint64)
        np.cumsum(table.take(self.codes[places]), out=totals[1:])
        return np.diff(totals[np.searchsorted(places, self.bounds)])

    def rows_of(self, places: Rows) -> Rows:
        """Return the lines, each once, that places in the joined text are in: (rows,)."""
        return np.unique(np.searchsorted(self.bounds, places, side="right") - 1)

    def sums(self, table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the sum of the table's values over the characters of each line: (lines,).

        table: (0x110000,) by code point. Sums are modulo 2^32.
        """
        return np.diff(self.running_sums(table)[self.bounds])

    def running_sums(self, table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the sum up to each character of the joined text: (characters + 1,).

        table: as of `sums`. It is not changed, so the sums are kept.
        """
        if id(table) not in self._running:
            totals = np.zeros(len(self.codes) + 1, np.uint32)
            np.cumsum(table.take(self.codes), out=totals[1:])
            self._running[id(table)] = totals
        return self._running[id(table)]


@dataclass(frozen=True)
class Pairs:
    """The decoded pairs of a block."""

    block: Block
    src: TextSide
    tgt: TextSide

    @classmethod
    def decode(cls, block: Block) -> Pairs:
        """Return the pairs of a block."""
        number, lines = block.number, block.lines
        decode = partial(decode_side, encoding=block.encoding, number=number, lines=lines)
        sides = zip((block.src, block.tgt), block.langs, strict=True)
        src, tgt = (decode(raw, classes=characters.classes_for(lang)) for raw, lang in sides)
        return cls(block, src, tgt)

    @property
    def sides(self) -> tuple[TextSide, TextSide]:
        return self.src, self.tgt

    @cached_property
    def lacking(self) -> Mask:
        """Which pairs lack a side: (pairs,)."""
        return np.isin(self.numbers, list(self.block.missing))

    @property
    def none(self) -> Mask:
        """No pair: (pairs,)."""
        return np.zeros(self.block.lines, np.bool_)

    @cached_property
    def numbers(self) -> Rows:
        """The line number of each pair in the text: (pairs,)."""
        block = self.block
        return np.array(block.numbers or range(block.number, block.number + block.lines), np.int64)

    @cached_property
    def in_other_script(self) -> tuple[Mask, Mask]:
        """Which sources and targets are mostly in a script that their language does not use."""
        (src, tgt), (src_lang, tgt_lang) = self.sides, self.block.langs
        return _in_other_script(src, tgt, src_lang), _in_other_script(tgt, src, tgt_lang)

    @cached_property
    def shorter(self) -> Counts:
        """Characters of the shorter side, without spaces: (pairs,)."""
        return np.minimum(self.src.visible, self.tgt.visible)

    @cached_property
    def longer(self) -> Counts:
        """Characters of the longer side, without spaces: (pairs,)."""
        return np.maximum(self.src.visible, self.tgt.visible)


def _in_other_script(side: TextSide, beside: TextSide, lang: str) -> Mask:
    """Return which lines of a side are mostly in another script: (lines,)."""
    scripts = characters.known_scripts(lang)
    # How much a letter of another script may weigh beside letters of the language's own.
    weight = 1 if set(scripts) <= set(characters.WIDE_SCRIPTS) else WIDE_LETTER
    found: Mask = (1 + weight) * side.count(characters.FOREIGN) > side.letters  # or cannot be
    for row in np.flatnonzero(found).tolist():
        counts = characters.letters_by_script(side.lines[row], beside.lines[row], scripts)
        foreign = sum(count for script, count in counts.items() if script and script not in scripts)
        found[row] = 2 * foreign > counts.total()
    return found


@dataclass
class Work:
    """A block in the hands of a worker."""

    block: Block
    pairs: Pairs
    verdicts: Verdicts  # (pairs,)
    rows: Rows  # (left,) the pairs that no rule has dropped so far
    lines: tuple[list[str], list[str]] = ([], [])  # (left,) source and target
    ids: tuple[TokenRows, TokenRows] | None = None  # (left,) source and target, once encoded
    hashes: dict[str, Hashes] = field(default_factory=dict)  # (left,) for each rule of duplicates
    flaws: tuple[FlawRecord, ...] = ()
    """Lines that have entities or a broken encoding."""
    misfit: Misfit | None = None
    nearest: Overlaps = field(default_factory=lambda: np.zeros(1, np.int16))  # (held out,)
    """How near the pairs that are left come to each pair of valid and test."""
    encoding_seconds: float = 0.0
    """CPU time of SentencePiece."""

    @classmethod
    def decode(cls, block: Block) -> Work:
        """Return a block without any verdict."""
        rows = np.arange(block.lines)
        return cls(block, Pairs.decode(block), np.full(block.lines, KEPT, np.uint8), rows)

    def judge(self, verdicts: Verdicts) -> None:
        """Give verdicts on the pairs that are left: (left,)."""
        self.verdicts[self.rows] = verdicts
        are_left = verdicts == KEPT
        self.rows = self.rows[are_left]
        src, tgt = (list(compress(lines, are_left)) for lines in self.lines)
        self.lines = src, tgt
        if self.ids is not None:
            self.ids = self.ids[0].select(are_left), self.ids[1].select(are_left)

    @property
    def tagged(self) -> list[str]:
        """The source lines with their tag: (left,)."""
        return [tagged(line, self.block.tag) for line in self.lines[0]]

    @property
    def numbers(self) -> Rows:
        """The line numbers of the pairs that are left: (left,)."""
        return self.pairs.numbers[self.rows]


def decode_side(
    raw: bytes, encoding: Encoding, classes: characters.Classes, *, number: int, lines: int
) -> TextSide:
    """Return the decoded side of a block whose first line has the given number (from 1)."""
    text = encoding.decode(raw, number=number)
    if text is None:
        decoded = [
            encoding.decode(line.removesuffix(b"\r"), number=number + index)
            for index, line in enumerate(raw.split(b"\n")[:lines])
        ]
        is_bad = np.fromiter((line is None for line in decoded), np.bool_, lines)
        return TextSide([line or "" for line in decoded], is_bad, classes)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return TextSide(text.removesuffix("\n").split("\n"), np.zeros(lines, np.bool_), classes)
