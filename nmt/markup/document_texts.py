"""The text of documents, unit by unit, so that two translations of one can be compared.

A unit is a message of a catalogue, a unit of XLIFF, what a cue of subtitles says, or a unit of HTML
as it is translated. It becomes a line without tags. PO and XLIFF hold its source, too.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from pathlib import Path

from nmt.data.corpus import Encoding
from nmt.markup.catalogues import catalogue_pairs, finished_messages, message_unit
from nmt.markup.document_units import Unit
from nmt.markup.documents import READERS, decode_document
from nmt.markup.file_types import FileType
from nmt.markup.json_catalogues import json_texts
from nmt.markup.segment_files import Segments
from nmt.markup.subtitles import cue_texts
from nmt.markup.tags import parse
from nmt.markup.xliff import Xliff
from nmt.system.files import read_file


def read_units(path: Path, kind: FileType, encoding: Encoding, *, of_source: bool) -> Segments:
    """Read a line of each unit; units with a source or a key are named by it.

    kind: its type; encoding: if it does not say itself which it has; of_source: whether to take the
    source of what holds both, or the translation, which may be empty.
    DataError if it is damaged.
    """
    text, codec, _ = decode_document(path, kind, read_file(path), encoding)
    units = [
        (" ".join(name.split()), " ".join(said.split()))
        for name, said in _UNITS[kind.name](path, text, codec)
    ]
    takes_name = of_source and kind.name in _WITH_SOURCES
    lines = [name if takes_name else said for name, said in units]
    return Segments(lines, tuple(name for name, _ in units if name))


def translated_units(
    path: Path, kind: FileType, encoding: Encoding
) -> Iterator[tuple[str, str, str]]:
    """Yield the form, source and target of units that have a translation, of PO or XLIFF.

    The form is that of the markup, as in the units of a document, or empty for plain text.
    DataError if the file is damaged.
    """
    text, codec, _ = decode_document(path, kind, read_file(path), encoding)
    if kind.name == "PO":
        for source, target, languages in finished_messages(path, text, codec):
            yield "", source, target
            src, tgt = (message_unit(side, languages, str) for side in (source, target))
            if src and tgt:
                yield kind.markup, src.line, tgt.line
        return
    for source, target in Xliff(path, text).finished:
        yield kind.markup, source.strip(), target
        if "<" not in source + target:
            yield "", html.unescape(source), html.unescape(target)


def _html_texts(path: Path, text: str, codec: str) -> Iterator[tuple[str, str]]:
    for part in READERS["HTML"](path, text, codec).parts:
        if isinstance(part, Unit):
            yield "", " ".join(line.text for line in part.marked.lines)


_WITH_SOURCES = ("XLIFF", "PO")
_UNITS: dict[str, Callable[[Path, str, str], Iterator[tuple[str, str]]]] = {
    "HTML": _html_texts,
    "XLIFF": lambda path, text, _codec: (
        (parse(source, "xml").text, parse(target, "xml").text)
        for source, target in Xliff(path, text).pairs
    ),
    "PO": catalogue_pairs,
    "JSON": lambda path, text, _codec: json_texts(path, text),
    "subtitles": lambda path, text, _codec: (("", said) for said in cue_texts(path, text)),
}
"""What yields the name of each unit, or its source if the document has that, and its text."""
