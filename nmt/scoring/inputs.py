"""Text to score: plain lines, a column of a table, segments of WMT's SGML or XML, or a document.

The name says which: `test.tsv:2` is the second column of a TSV file, `test.jsonl:target` a key of
JSON Lines, `.sgm` and `.sgml` are SGML, and `test.xml:A` is translator A of WMT's XML. Documents
such as `.srt` and `.po` give a line for each unit, and anything else is plain text. Tables and
plain text may be compressed (`test.tsv.gz:2`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from nmt import console
from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding, decode_lines, read_lines, read_pipe, split_lines
from nmt.data.languages import is_pair
from nmt.errors import DataError, UsageError
from nmt.markup import segment_files
from nmt.markup.file_types import TYPES, FileType, file_type, type_of_content
from nmt.markup.segment_files import SegmentFile, Segments
from nmt.tables import formats
from nmt.tables.scored_lines import form_of

_FIRST_LINES = 100  # that show whether they are text
_UNKNOWN = ("und", "und")  # the languages, as ISO 639 spells that
_DOCUMENTS = [suffix for kind in TYPES if kind.markup for suffix in kind.suffixes]
_NO_LANGUAGE = {*SUFFIXES, *_DOCUMENTS, *(one.suffix for one in formats.TABLES)}
_NO_LANGUAGE |= {".sgm", ".sgml", ".txt"}


class Text(NamedTuple):
    name: str
    lines: list[str]
    segments: tuple[str, ...] = ()  # in SGML and XML, the document and number of each line
    lang: str = ""  # the language, if XML says it


def read_text(
    path: Path, encoding: Encoding, use: str = "hypothesis", quoting: Sequence[str] = ()
) -> Text:
    """Read a file in the form that its name says, or UTF-8 lines from stdin for -.

    use: what is taken of a file that holds several texts: source, reference or hypothesis.
    quoting: FILE=csv or FILE=none, for tables that do not show whether their cells are quoted.
    DataError if it is not of that form.
    """
    whole = _read_whole(path, encoding, use, quoting)
    return whole or Text(name_of(path), list(_stream(path, encoding)))


def stream(path: Path, encoding: Encoding, use: str = "hypothesis") -> Iterator[str]:
    """Return the lines of a text, as `read_text` does; plain text is not read in advance."""
    whole = _read_whole(path, encoding, use, quoting=())
    return iter(whole.lines) if whole is not None else _stream(path, encoding)


def stream_together(
    paths: Sequence[Path], encoding: Encoding, quoting: Sequence[str] = ()
) -> list[Iterator[str]]:
    """Return the lines of a source and its translation; plain text is not read in advance.

    UsageError if both are stdin. DataError if they differ in their segments.
    """
    if paths.count(Path("-")) > 1:
        raise UsageError("stdin can be only one text; name the file of the other")
    sides = zip(("source", "hypothesis"), paths, strict=True)
    whole = [_read_whole(path, encoding, use, quoting) for use, path in sides]
    check_segments([text for text in whole if text is not None])
    return [
        iter(text.lines) if text is not None else _stream(path, encoding)
        for path, text in zip(paths, whole, strict=True)
    ]


def _read_whole(path: Path, encoding: Encoding, use: str, quoting: Sequence[str]) -> Text | None:
    """Read a table, a test set or a document; None for plain lines."""
    if path == Path("-"):
        return None
    if formats.is_table(formats.file_and_columns(str(path))[0]):
        return Text(str(path), _read_column(str(path), encoding, quoting))
    if test_set := SegmentFile.named(path):
        side = test_set.read(encoding, use)
        if side.left_out:
            console.notice(f"{path}: {side.described_rest}")
    elif kind := file_type(path):
        side = _read_document(path, kind, encoding, use)
    else:
        return None
    return Text(str(path), side.lines, side.segments, side.lang)


def _read_column(name: str, encoding: Encoding, quoting: Sequence[str]) -> list[str]:
    """Read a column of a table, such as test.jsonl:target or test.xlsx:Sheet:de (DataError)."""
    file, columns = formats.file_and_columns(name)
    form = next(one for one in formats.TABLES if one.suffix == formats.suffix_of(file))
    if len(columns) > 1 + (form is formats.XLSX):
        raise UsageError(f"{name}: name one column")
    quoted = dict(map(formats.name_and_value, quoting)).get(file, "")
    both, sheet = 2 * columns[-1:], "".join(columns[:-1])
    request = formats.FileRequest(name, file, Path(file), both, _UNKNOWN, encoding, quoted, sheet)
    table = form.open(request._replace(is_one_side=True))
    rows = list(enumerate(table.checked_rows(lambda _: None), start=1))
    taken = [(number, row) for number, row in rows if not row.left_out]
    if why := next((row.left_out for _, row in rows if row.left_out), ""):
        number = console.counted(len(rows) - len(taken), "row", "rows")
        console.notice(f"{name}: {number} left out, which its makers mark, such as {why}")
    if missing := next((number for number, row in taken if row.is_missing), 0):
        raise DataError(
            f"{name}: row {missing:,} has no text there, or more cells than the first; mend it"
        )
    remedy = "save it as UTF-8, or pass --encoding"
    texts = (row.src for _, row in taken)
    return list(decode_lines(texts, table.encoding, name=name, remedy=remedy))


def _read_document(path: Path, kind: FileType, encoding: Encoding, use: str) -> Segments:
    """Read the units of a document; DataError if its type is not supported."""
    if not kind.markup:
        raise DataError(f"{path}: is {kind.name}, not text; write its text to a .txt file")
    from nmt.markup.document_texts import read_units

    return read_units(path, kind, encoding, of_source=use == "source")


def name_of(path: Path) -> str:
    """Return a text's name in messages."""
    return "stdin" if path == Path("-") else str(path)


def language_of(path: Path) -> str:
    """Return the language in a file's name, or "": de for test.en-de.de.sgm.gz."""
    parts = path.name.partition(":")[0].split(".")
    ending = next((part for part in reversed(parts) if f".{part.lower()}" not in _NO_LANGUAGE), "")
    return "" if is_pair(ending) else ending


def check_segments(texts: Sequence[Text]) -> None:
    """Raise DataError if test sets differ in their segments or the order of these."""
    segment_files.check_segments((text.name, text.segments) for text in texts if text.segments)


def check_plain(texts: Sequence[Text]) -> None:
    """Raise DataError for a text whose lines hold more than text. Its scores would be wrong."""
    for text in texts:
        if form := form_of(text.lines):
            raise DataError(f"{text.name} is {form}, not plain text; cut the text out of it")


def plain_lines(name: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield lines; DataError if the first ones hold more than text."""
    first = list(islice(lines, _FIRST_LINES))
    check_plain([Text(name, first)])
    yield from chain(first, lines)


def _stream(path: Path, encoding: Encoding) -> Iterator[str]:
    """Yield the lines of a file, or of stdin for -, which is UTF-8 whatever the encoding."""
    if path == Path("-"):
        encoding, remedy = Encoding.find("utf-8"), "expected UTF-8"
        lines = split_lines(_stdin_chunks(encoding))
    else:
        remedy = "save it as UTF-8, or pass --encoding"
        lines = read_lines(path, encoding)
    texts = decode_lines(lines, encoding, name=name_of(path), remedy=remedy)
    first = list(islice(texts, _FIRST_LINES))
    if kind := type_of_content("\n".join(first).encode()):
        raise DataError(f"{name_of(path)} is {kind.name}, not lines of text; name its file")
    yield from chain(first, texts)


def _stdin_chunks(encoding: Encoding) -> Iterator[bytes]:
    if sys.stdin is None:
        raise UsageError("stdin is closed; name the file of each text")
    if sys.stdin.isatty():
        console.notice("reading the translation from the keyboard; Ctrl-D ends it")
    return read_pipe(sys.stdin.fileno(), encoding, "stdin")
