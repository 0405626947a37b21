"""What is scored: plain lines, a column of a TSV file, or the segments of WMT's SGML.

The ending of the name tells which: `.tsv` and, for one of several columns, `.tsv:2`; `.sgm` and
`.sgml`; anything else is plain. All may be compressed as well (`.tsv.gz:2`).
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding, TextStream, read_lines, split_lines
from nmt.errors import DataError, UsageError
from nmt.files import read_when_ready

_CHUNK_BYTES = 1 << 20
_COMPRESSED = ("gz", "xz", "bz2", "zst")
_ENDING = rf"(?:\.(?:{'|'.join(_COMPRESSED)}))?"
_TSV = re.compile(rf"(?P<file>.+\.tsv{_ENDING})(?::(?P<column>[1-9]\d*))?", re.IGNORECASE)
_SGML = re.compile(rf".+\.sgml?{_ENDING}", re.IGNORECASE)
_NO_LANGUAGE = {*_COMPRESSED, "sgm", "sgml", "tsv", "txt"}

_TAG = re.compile(r"<(?P<end>/?)(?P<name>doc|seg)\b(?P<attributes>[^>]*)>", re.IGNORECASE)
_ENTITY = re.compile(r"&(quot|amp|lt|gt|apos);")
_CHARACTERS = {"quot": '"', "amp": "&", "lt": "<", "gt": ">", "apos": "'"}


@dataclass(frozen=True)
class Text:
    """The lines of one file."""

    name: str
    lines: list[str]
    segments: tuple[str, ...] = ()
    """Of SGML, what each line is called there: document and number."""


def read_text(path: Path, encoding: Encoding) -> Text:
    """Read a file in the form that its name tells; DataError where it is none."""
    if match := _TSV.fullmatch(path.name):
        file = path.with_name(match["file"])
        column = int(match["column"]) if match["column"] else None
        return Text(str(path), _column(str(file), _read_plain(file, encoding), column))
    lines = _read_plain(path, encoding)
    if _SGML.fullmatch(path.name):
        return read_sgml(str(path), "\n".join(lines))
    return Text(str(path), lines)


def stream_together(paths: Sequence[Path], encoding: Encoding) -> list[Iterator[str]]:
    """Return the lines of texts that belong together, plain ones as they are read.

    For - those of stdin.

    Raises:
        UsageError: if stdin is to be more than one of them.
        DataError: if SGML files differ in their segments.
    """
    if paths.count(Path("-")) > 1:
        raise UsageError("stdin can be one text alone; name the file of the other")
    whole = {
        path: read_text(path, encoding)
        for path in paths
        if _TSV.fullmatch(path.name) or _SGML.fullmatch(path.name)
    }
    check_segments(list(whole.values()))
    return [
        iter(whole[path].lines)
        if path in whole
        else (_stream_stdin() if path == Path("-") else _stream_plain(path, encoding))
        for path in paths
    ]


def name_of(path: Path) -> str:
    """Return what to call a text that may be stdin, for -."""
    return "stdin" if path == Path("-") else str(path)


def read_stdin() -> Text:
    """Read plain UTF-8 lines."""
    return Text("stdin", list(_stream_stdin()))


def language_of(path: Path) -> str:
    """Return the last part of a name that is no form of text, or "": de of test.en-de.de.sgm.gz."""
    parts = path.name.partition(":")[0].split(".")
    return next((part for part in reversed(parts) if part.lower() not in _NO_LANGUAGE), "")


def check_segments(texts: Sequence[Text]) -> None:
    """Refuse SGML files whose segments are not the same, or not in the same order."""
    for one, other in pairwise(text for text in texts if text.segments):
        pairs = zip(one.segments, other.segments, strict=False)  # lengths are compared elsewhere
        for number, (segment, other_segment) in enumerate(pairs, start=1):
            if segment != other_segment:
                raise DataError(
                    f"segment {number:,} is {segment} in {one.name}, but {other_segment} in "
                    f"{other.name}; bring both into the same order"
                )


@dataclass(frozen=True)
class _Form:
    """What `nmt translate` writes besides plain text."""

    line: re.Pattern[str]
    name: str
    command: str
    """Cuts the best translations out of a file, whose name comes behind it."""


_FORMS = (
    _Form(
        re.compile(r"\d+ \|\|\| (?:.* )?\|\|\| (?:-?\d\S*|-inf)"),
        "an n-best list (LINE ||| TEXT ||| SCORE)",
        "awk -F ' [|][|][|] ' 'NR == 1 || $1 != line {print $2; line = $1}'",
    ),
    _Form(re.compile(r"(?:-?\d+\.\d{6}|-inf)\t.*"), "SCORE<TAB>TEXT", "cut -f 2-"),
    _Form(
        re.compile(r".* \|\|\|(?: \d+-\d+)* ?"),
        "TEXT ||| ALIGNMENT",
        "sed 's/ ||| [0-9 -]*$//'",
    ),
    _Form(re.compile(r'\{"line": \d+, "text": .*\}'), "JSON", "jq -r .text"),
)


def check_plain(texts: Sequence[Text]) -> None:
    """Refuse what `nmt translate` writes with more than text in it: figures would be wrong.

    Raises:
        DataError: with the command that cuts the text out.
    """
    for text in texts:
        lines = [line for line in text.lines if line.strip()]
        for form in _FORMS:
            if lines and all(map(form.line.fullmatch, lines)):
                is_named = text.name != "stdin" and not text.name.endswith(_COMPRESSED)
                file = f" {shlex.quote(text.name)}" if is_named else ""
                raise DataError(
                    f"{text.name} is {form.name}, not plain text; cut the text out with: "
                    f"{form.command}{file}"
                )


def _stream_stdin() -> Iterator[str]:
    if sys.stdin is None:
        raise UsageError("stdin is closed; name the file of each text")
    if sys.stdin.isatty():
        console.notice("reading the translation from the keyboard; Ctrl-D ends it")
    encoding = Encoding.find("utf-8")
    text = TextStream("stdin", encoding)

    def chunks() -> Iterator[bytes]:
        while block := read_when_ready(sys.stdin.fileno(), _CHUNK_BYTES):
            yield from text.feed(block)
        yield from text.feed(b"", final=True)

    yield from _decode(split_lines(chunks()), encoding, "stdin", "expected UTF-8")


def _read_plain(path: Path, encoding: Encoding) -> list[str]:
    return list(_stream_plain(path, encoding))


def _stream_plain(path: Path, encoding: Encoding) -> Iterator[str]:
    hint = "save it as UTF-8, or pass --encoding"
    return _decode(read_lines(path, encoding), encoding, str(path), hint)


def _decode(lines: Iterable[bytes], encoding: Encoding, name: str, hint: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        text = encoding.decode(line, number=number)
        if text is None:
            raise DataError(f"{name}: line {number:,} is not valid {encoding.name}; {hint}")
        yield text


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
                f"{name}: line {number:,} has no column {column}, but {len(row)} in all; "
                "columns are counted from 1 and parted by tabs"
            )
    return [row[column - 1] for row in rows]


def read_sgml(name: str, content: str) -> Text:
    """Read what stands between <seg> and </seg>, spaces made one, entities made characters."""
    lines: list[str] = []
    segments: dict[str, None] = {}
    document = ""
    opened: re.Match[str] | None = None
    for tag in _TAG.finditer(content):
        is_segment, ends = tag["name"].lower() == "seg", bool(tag["end"])
        if is_segment and ends and opened is not None:
            text = " ".join(content[opened.end() : tag.start()].split())
            lines.append(_ENTITY.sub(lambda entity: _CHARACTERS[entity[1]], text))
            segment = f"{document}:{_attribute('id', opened['attributes']) or len(lines)}"
            if segment in segments:
                raise DataError(
                    f"{name}: line {_line_of(opened)}: segment {segment} for the second time; "
                    "several translations in one file are not understood, give each its own"
                )
            segments[segment] = None
            opened = None
        elif is_segment and not ends and opened is None:
            opened = tag
        elif is_segment or opened is not None:
            raise DataError(
                f"{name}: line {_line_of(tag)}: {tag[0]} out of place; expected <seg> and </seg> "
                "in turn, inside <doc>"
            )
        elif not ends:
            document = _attribute("docid", tag["attributes"]) or ""
    if opened is not None:
        raise DataError(f"{name}: line {_line_of(opened)}: {opened[0]} has no </seg>")
    if not lines:
        raise DataError(f"{name} holds no <seg>, which its name promises; expected WMT's SGML")
    return Text(name, lines, tuple(segments))


def _line_of(tag: re.Match[str]) -> str:
    return f"{tag.string.count(chr(10), 0, tag.start()) + 1:,}"


def _attribute(name: str, attributes: str) -> str | None:
    match = re.search(rf"""\b{name}\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))""", attributes, re.I)
    return next((value for value in match.groups() if value is not None), None) if match else None
