"""Documents: files of which text is translated and everything else stays, such as HTML and XLIFF.

A document is cut into units of markup. In HTML, a unit is what comes between two tags that are not
part of running text, such as `<p>`, `<td>` or `<br>`; in `<pre>`, it is a line or a wrapped
sentence. XLIFF, catalogues and subtitles have modules of their own.

A document keeps its encoding. Characters that this does not have are written as numbers, or the
document fails if its type has none. HTML that says it is Latin-1 or ASCII is read as Windows-1252,
as browsers do.

Source: https://encoding.spec.whatwg.org/#names-and-labels.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.data.compressed import MAGIC
from nmt.data.corpus import Encoding
from nmt.data.language_tokens import Langs
from nmt.data.languages import primary_language
from nmt.errors import DataError, UsageError
from nmt.markup.breaks import MarkedLines, cut_at_breaks, unwrap
from nmt.markup.catalogues import catalogue_parts
from nmt.markup.document_units import Reading, Unit
from nmt.markup.file_types import UTF16_STARTS, FileType
from nmt.markup.json_catalogues import json_parts
from nmt.markup.kept_pieces import find_message, may_be_placeholders
from nmt.markup.markup_tokens import Token, elements
from nmt.markup.subtitles import subtitle_parts
from nmt.markup.xliff import Xliff

_INLINE = frozenset(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd mark math "
    "nobr q rp rt ruby s samp small span strike strong sub sup svg time tt u var wbr".split()
)
"""Elements of HTML within running text."""

_BOMS = {  # the first that fits: UTF-32's begins with UTF-16's
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_DECLARED_IN_XML = rb"""^<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)"""
_DECLARED = {
    "HTML": re.compile(
        _DECLARED_IN_XML + rb"""|<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
    ),
    "XLIFF": re.compile(_DECLARED_IN_XML),
    "PO": re.compile(rb"""Content-Type:[^\n"]*charset=(?!CHARSET)([\w.:-]+)"""),
}
_KEY = re.compile(r"\w[\w-]{0,99}(?:[._:/]+[\w-]{1,100}){1,20}", re.ASCII)
"""A source that stands for a text, such as `person.group.sponsors`, in catalogues of Symfony."""
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_PAGE = re.compile(r"<html\s", re.IGNORECASE)
_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*["']?)([A-Za-z]+)[\w-]*""", re.IGNORECASE)
_DECLARATION_BYTES = 4_096


class Written(NamedTuple):
    """A document with translations."""

    content: bytes
    refused: int  # translations that do not fit in it
    changed: list[str]  # what may be placeholders, and was lost


class Document(NamedTuple):
    """A document, cut into units and what stays."""

    path: Path
    type: FileType
    encoding: str
    bom: bytes
    parts: list[str | Unit]
    translated: int  # units that have a translation already
    sources: Sequence[str]  # of all units
    lacks_language: bool  # of targets, which XLIFF 2 needs

    @classmethod
    def read(cls, path: Path, kind: FileType, content: bytes, encoding: Encoding) -> Document:
        """Read a document.

        The arguments and errors are those of `decode_document`; DataError also if it is damaged.
        """
        text, name, bom = decode_document(path, kind, content, encoding)
        reading = READERS[kind.name](path, text, name)
        parts = [part for part in reading.parts if part is not None]
        sources = reading.sources or [part.line for part in parts if isinstance(part, Unit)]
        translated = reading.parts.count(None)
        return cls(path, kind, name, bom, parts, translated, sources, reading.lacks_language)

    @property
    def units(self) -> list[Unit]:
        return [part for part in self.parts if isinstance(part, Unit)]

    @property
    def key(self) -> str:
        """The first of the sources that look like keys, if most do; empty if not."""
        keys = [source for source in self.sources if _KEY.fullmatch(source.strip())]
        return keys[0] if 2 * len(keys) > len(self.sources) else ""

    def write(self, translations: Iterable[str | None], languages: Langs = ("", "")) -> Written:
        """Return the document with a translation of each unit, or None.

        languages: source and target; a page of HTML that says it is in the first is in the second.
        """
        waiting = iter(translations)
        source, target = languages
        is_page = bool(target) and self.type.name == "HTML"

        def in_target(found: re.Match[str]) -> str:
            if primary_language(found[2]) != primary_language(source):
                return found[0]
            _, sign, rest = target.replace("_", "-").partition("-")
            return found[1] + primary_language(target) + sign + rest

        written, refused, changed = list[str](), 0, list[str]()
        for part in self.parts:
            if isinstance(part, str):
                says_language = is_page and _PAGE.match(part)
                written.append(_LANGUAGE.sub(in_target, part) if says_language else part)
                continue
            translation = next(waiting)
            translated = part.write(translation)
            written.append(part.otherwise if translated is None else translated)
            refused += translated is None and translation is not None
            if translated is not None and translation is not None:
                lost = may_be_placeholders(part.line) - may_be_placeholders(translation)
                changed += list(lost)[:1]
        text = "".join(written)
        errors = "xmlcharrefreplace" if self.type.name in ("HTML", "XLIFF") else "strict"
        try:
            encoded = text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self.path}: {self.encoding} has no {text[error.start]!r}, which is in the "
                "translation; save it as UTF-8"
            ) from None
        return Written(self.bom + encoded, refused, changed)


def decode_document(
    path: Path, kind: FileType, content: bytes, encoding: Encoding
) -> tuple[str, str, bytes]:
    """Return the text of a document, its encoding, and its byte-order mark.

    path: its name; kind: its type; content: its bytes; encoding: if it does not say itself which it
    has.
    DataError if it is compressed, or not valid in its encoding.
    """
    if content.startswith(tuple(MAGIC)):
        raise DataError(kind.refusal(path))
    bom = next((bom for bom in _BOMS if content.startswith(bom)), b"")
    head = _COMMENT.sub(b"", content[:_DECLARATION_BYTES])
    declaration = None if bom else _DECLARED.get(kind.name)
    declared = declaration and declaration.search(head)
    name = _BOMS.get(bom) or UTF16_STARTS.get(content[:2], encoding.name)
    if declared is not None and declared.lastindex:
        name = declared[declared.lastindex].decode("ascii")
    try:
        if declared and kind.name == "HTML":
            name = _as_browsers_do(name)
        Encoding.find(name)
        text = content[len(bom) :].decode(name)
        text.encode()  # some codecs decode to lone surrogates, which are not text
    except (LookupError, UsageError):
        raise DataError(f"{path}: its encoding {name!r} is unknown; save it as UTF-8") from None
    except UnicodeError:
        says = bom or declared
        hint = "which it says it has; correct that" if says else "pass its --encoding"
        raise DataError(
            f"{path}: not valid {name}{',' if says else ';'} {hint}, or save it as UTF-8"
        ) from None
    if text.count("\0") * 4 > len(text):
        raise DataError(f"{path}: not {name} text; pass its --encoding, or save it as UTF-8")
    return text, name, bom


def _as_browsers_do(name: str) -> str:
    """Return the encoding of an HTML file whose bytes, read as ASCII, name one."""
    known = codecs.lookup(name).name
    if known in ("iso8859-1", "ascii"):
        return "windows-1252"
    return "utf-8" if known.startswith(("utf-16", "utf-32")) else name


READERS: dict[str, Callable[[Path, str, str], Reading]] = {
    "HTML": lambda _path, text, _encoding: Reading(list(_html_parts(text))),
    "XLIFF": lambda path, text, _encoding: Xliff(path, text).reading(),
    "PO": lambda path, text, encoding: Reading(list(catalogue_parts(path, text, encoding))),
    "JSON": lambda path, text, _encoding: Reading(list(json_parts(path, text))),
    "subtitles": lambda path, text, _encoding: Reading(list(subtitle_parts(path, text))),
}
"""What cuts the text of a document of each type, given its path and encoding."""


def _html_parts(text: str) -> Iterator[str | Unit]:
    run: list[str] = []  # of running text
    in_pre = 0
    braces = 0  # open ones of an ICU message, which stays with all tags that are in it
    for token in elements(text, "html"):
        if token.kind == "text":
            braces = _open_braces(token.raw, braces)
        if braces or _is_running(token):
            run.append(token.raw)
            continue
        yield from _running("".join(run), in_pre=in_pre > 0)
        yield token.raw
        run = []
        if token.name == "pre":
            in_pre += {"open": 1, "close": -1}.get(token.kind, 0)
    yield from _running("".join(run), in_pre=in_pre > 0)


def _open_braces(text: str, before: int) -> int:
    """Return how many braces of an ICU message are open after a text, given those before it."""
    message = None if before else find_message(text)
    if not before and message is None:
        return 0
    for brace in re.findall("[{}]", text[message.start() :] if message else text):
        before = max(0, before + (1 if brace == "{" else -1))
    return before


def _is_running(token: Token) -> bool:
    if token.kind == "other":
        return token.raw.startswith("<!--")
    is_in_text = not token.name[:1].isalpha()  # a text, or a tag written in text
    return is_in_text or token.name in _INLINE


def _running(raw: str, *, in_pre: bool) -> Iterator[str | Unit]:
    """Yield the lines of running text, and what is between them."""
    lines, between = cut_at_breaks(raw, "html", at_line_ends=in_pre)
    yield between[0]
    for line, after in zip(lines, between[1:], strict=True):
        markup = line.raw if in_pre else unwrap(line.raw)
        yield Unit(MarkedLines.of(markup, "html"), otherwise=line.raw)
        yield after
