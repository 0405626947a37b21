"""Text to score: plain lines, a column of a TSV file, or the segments of WMT's SGML or XML.

The name says which: `test.tsv:2` is the second column of a TSV file, `.sgm` and `.sgml` are SGML,
`test.xml:A` is translator A of WMT's XML, and anything else is plain text. All may be compressed
(`test.tsv.gz:2`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding, TextStream, decode_lines, read_lines, split_lines
from nmt.data.languages import is_pair
from nmt.errors import DataError, UsageError
from nmt.markup import segment_files
from nmt.markup.segment_files import SegmentFile
from nmt.system.files import read_when_ready
from nmt.tables.scored_lines import form_of

_CHUNK_BYTES = 1 << 20
_COMPRESSED = ("gz", "xz", "bz2", "zst")
_ENDING = rf"(?:\.(?:{'|'.join(_COMPRESSED)}))?"
_TSV = re.compile(rf"(?P<file>.+\.tsv{_ENDING})(?::(?P<column>[1-9]\d{{0,8}}))?", re.IGNORECASE)
_PAIR = ("source", "hypothesis")
_NO_LANGUAGE = {*_COMPRESSED, "sgm", "sgml", "tsv", "txt"}


@dataclass(frozen=True)
class Text:
    name: str
    lines: list[str]
    segments: tuple[str, ...] = ()  # in SGML and XML, the document and number of each line
    lang: str = ""  # the language, if XML says it


def read_text(path: Path, encoding: Encoding, use: str = "hypothesis") -> Text:
    """Read a file in the form that its name says, or UTF-8 lines from stdin for -.

    use: what is taken from XML that holds several texts: source, reference or hypothesis.
    DataError if it is not of that form.
    """
    name = name_of(path)
    if test_set := SegmentFile.named(path):
        side = test_set.read(encoding, use)
        if side.left_out:
            console.notice(f"{name}: {side.described_rest}")
        return Text(name, side.lines, side.segments, side.lang)
    if match := _TSV.fullmatch(path.name):
        file = path.with_name(match["file"])
        column = int(match["column"]) if match["column"] else None
        return Text(name, _column(str(file), list(_stream(file, encoding)), column))
    return Text(name, list(_stream(path, encoding)))


def stream_together(paths: Sequence[Path], encoding: Encoding) -> list[Iterator[str]]:
    """Return the lines of a source and its translation; plain text is not read in advance.

    UsageError if both are stdin. DataError if SGML or XML files differ in their segments.
    """
    if paths.count(Path("-")) > 1:
        raise UsageError("stdin can be only one text; name the file of the other")
    whole = {
        use: read_text(path, encoding, use)
        for use, path in zip(_PAIR, paths, strict=True)
        if _TSV.fullmatch(path.name) or SegmentFile.named(path)
    }
    check_segments(list(whole.values()))
    return [
        iter(whole[use].lines) if use in whole else _stream(path, encoding)
        for use, path in zip(_PAIR, paths, strict=True)
    ]


def name_of(path: Path) -> str:
    """Return a text's name in messages."""
    return "stdin" if path == Path("-") else str(path)


def language_of(path: Path) -> str:
    """Return the language in a file's name, or "": de for test.en-de.de.sgm.gz."""
    parts = path.name.partition(":")[0].split(".")
    ending = next((part for part in reversed(parts) if part.lower() not in _NO_LANGUAGE), "")
    return "" if is_pair(ending) else ending


def check_segments(texts: Sequence[Text]) -> None:
    """Raise DataError if test sets differ in their segments or the order of these."""
    segment_files.check_segments((text.name, text.segments) for text in texts if text.segments)


def check_plain(texts: Sequence[Text]) -> None:
    """Raise DataError for a text whose lines hold more than text. Its scores would be wrong."""
    for text in texts:
        if form := form_of(text.lines):
            raise DataError(f"{text.name} is {form}, not plain text; cut the text out of it")


def _stream(path: Path, encoding: Encoding) -> Iterator[str]:
    """Yield the lines of a file, or of stdin for -, which is UTF-8 whatever the encoding."""
    if path == Path("-"):
        encoding, remedy = Encoding.find("utf-8"), "expected UTF-8"
        lines = split_lines(_stdin_chunks(encoding))
    else:
        remedy = "save it as UTF-8, or pass --encoding"
        lines = read_lines(path, encoding)
    yield from decode_lines(lines, encoding, name=name_of(path), remedy=remedy)


def _stdin_chunks(encoding: Encoding) -> Iterator[bytes]:
    if sys.stdin is None:
        raise UsageError("stdin is closed; name the file of each text")
    if sys.stdin.isatty():
        console.notice("reading the translation from the keyboard; Ctrl-D ends it")
    text = TextStream("stdin", encoding)
    while block := read_when_ready(sys.stdin.fileno(), _CHUNK_BYTES):
        yield from text.feed(block)
    yield from text.feed(b"", final=True)


def _column(name: str, lines: list[str], column: int | None) -> list[str]:
    rows = [line.split("\t") for line in lines]
    if column is None:
        if (columns := max(map(len, rows), default=0)) > 1:
            raise DataError(
                f"{name} has {columns} columns; say which one, counted from 1: {name}:2"
            )
        column = 1
    for number, row in enumerate(rows, start=1):
        if len(row) < column:
            raise DataError(
                f"{name}: line {number:,} has no column {column}, only {len(row)}; "
                "columns are counted from 1 and separated by tabs"
            )
    return [row[column - 1] for row in rows]
