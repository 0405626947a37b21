"""Types of files: which are translated as documents, as lines, or refused, by name and content.

A name decides if the type is supported. Otherwise the content does, if it is unmistakable: a plain
text may begin with a brace, a hash or a dash. A type that is not supported and has no such sign is
known by its name only.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError
from nmt.tables.formats import CSV, JSON_LINES, PARQUET, TSV

FORMS = ("html", "xml")  # of markup
AS_LINES = "none"  # the form of markup of what is translated as lines, whatever its type
UTF16_STARTS = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
"""How markup in UTF-16 begins without a byte-order mark."""
_HEAD_BYTES = 1 << 16
_FIRST_LINES = 100  # that are looked at for tags and the like
_LONGEST_LINE = 1_000  # characters of one that are looked at
_OF_JSON = (JSON_LINES.suffix, ".ipynb")  # whose content is like that of another type

_TIKAL = "convert it to XLIFF with Okapi Tikal"
_TAKE_OUT = "take its texts out into a .po or .xlf file"
_BY_TOOLKIT = "make a .po file with {} of the Translate Toolkit"

_STRING = r'"(?>(?:[^"\\\n]|\\.)*)"'
_PROLOG = (
    r"\s*+(?>(?:(?:<\?xml[^>]*\?>|<!--(?>(?:(?!-->).)*)-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\])?>)\s*+)*)"
)


class FileType(NamedTuple):
    """A type of files that have more in them than lines of text."""

    name: str
    suffixes: tuple[str, ...]
    sign: str = ""  # a pattern: how each one begins, whatever its name
    markup: str = ""  # the form of tags in its text; empty if it is not supported
    way: str = _TIKAL  # to translate one that is not supported
    is_text: bool = True

    def refusal(self, path: Path) -> str:
        """Return what to tell of a file of this type that is not translated."""
        if self.markup:
            return f"{path}: is a compressed document; decompress it first"
        lines = ", or pass --markup none to translate it as lines" if self.is_text else ""
        return f"{path}: {self.name} is not supported; {self.way}{lines}"


TYPES = (
    FileType(
        "HTML",
        (".html", ".htm", ".xhtml"),
        r"\s*+(?i:<!doctype html)|" + _PROLOG + r"<html[\s>]",
        "html",
    ),
    FileType(
        "XLIFF",
        (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff", ".txlf"),
        _PROLOG + r"<(?:[\w.-]+:)?xliff[\s>]",
        "xml",
    ),
    FileType(
        "PO",
        (".po", ".pot"),
        r'(?>(?:[ \t\r]*+(?:#[^\n]*+)?\n)*)(?:msgctxt\s++"[^\n]*+\n)?msgid\s++"',
        "html",
    ),
    FileType(
        "subtitles",
        (".srt", ".vtt"),
        r"WEBVTT(?:\s|\Z)|\s*+(?:\d++\s++)?\d++:\d\d:\d\d[.,]\d++ *-->",
        "html",
    ),
    FileType("TMX", (".tmx",), _PROLOG + r"<tmx[\s>]"),
    FileType(
        "XML",
        (".xml", ".resx", ".resw", ".plist", ".svg", ".xaml", ".ttml", ".dfxp", ".dita"),
        r"\s*+<(?:(?:\?xml|!DOCTYPE)\s|(?:(?:TS|plist|resources|root)(?:\s[^<>]*)?"
        r"|[\w.:-]+\s[^<>]*?xmlns[:=][^<>]*)>\s*+<)",
    ),
    FileType(
        "JSON",
        (".json", ".arb"),
        rf"\s*+[\[{{]\s*+(?:\{{\s*+)?{_STRING}\s*+:|\s*+\[[ \r]*+\n\s*+{_STRING}\s*+(?:,|\])",
        "html",
    ),
    FileType("a notebook", (".ipynb",), way=_TAKE_OUT),
    FileType("YAML", (".yaml", ".yml")),
    FileType("a .properties file", (".properties",)),
    FileType(
        "a .strings file",
        (".strings",),
        rf"(?>(?:\s++|/\*.*?\*/|//[^\n]*+\n)*){_STRING}\s*+=\s*+{_STRING}\s*+;",
    ),
    FileType(
        "a file of settings",
        (".ini", ".toml"),
        r"(?>(?:\s++|[#;][^\n]*+\n)*)\[[\w.-]+\][ \r]*+\n\s*+[\w.-]++\s*+=\s*+\S",
    ),
    FileType("Fluent", (".ftl",), way=_TAKE_OUT),
    FileType("Markdown", (".md", ".markdown", ".mdx")),
    FileType(
        "wiki text", (".wiki", ".mediawiki", ".wikitext"), way="convert it to .html with pandoc"
    ),
    FileType(
        "a template",
        tuple(
            ".vue .jsx .tsx .svelte .astro .ejs .erb .twig .njk .liquid .jinja .jinja2 .j2 "
            ".mustache .handlebars .cshtml .php".split()
        ),
        _PROLOG + r"<(?:template|script|style)(?:\s[^<>]*)?>[ \r]*\n|\s*+<\?php\s",
        way=_TAKE_OUT,
    ),
    FileType("reStructuredText", (".rst",), way="make .po files with sphinx-build -b gettext"),
    FileType("AsciiDoc", (".adoc", ".asciidoc"), way="make a .po file with po4a"),
    FileType(
        "LaTeX",
        (".tex",),
        r"(?>(?:\s++|%[^\n]*+\n)*)\\documentclass\b",
        way="make a .po file with po4a",
    ),
    FileType(
        "a table without a column",
        (TSV.suffix, CSV.suffix, JSON_LINES.suffix),
        way="name what to read and what to write, as in --input x.tsv:en --output y.tsv:de",
    ),
    FileType(
        "this type of subtitles",
        (".ass", ".ssa", ".sub", ".sbv", ".smi", ".lrc"),
        r"\s*+(?:\[Script Info\]|(?:\{\d++\}\{\d++\}[^\n]*+\n){2}|\[\d\d:\d\d\.\d\d"
        r"|\d++:\d\d:\d\d\.\d++,\d++:\d\d:)",
        way="save it as .srt",
    ),
    FileType(
        "SGML",
        (".sgm", ".sgml"),
        r"\s*+<(?i:src|ref|tst|hyp)set\s",
        way="write its text to a file, one segment on each line",
    ),
    FileType("USFM", (".usfm", ".sfm"), r"\s*+\\id\s++[A-Z0-9]{3}\b", way=_TAKE_OUT),
    FileType("a script of Ren'Py", (".rpy",), way=_TAKE_OUT),
    FileType("a resource script", (".rc",), way=_BY_TOOLKIT.format("rc2po")),
    FileType("a DTD", (".dtd",), _PROLOG + r"<!ENTITY\s", way=_BY_TOOLKIT.format("dtd2po")),
    FileType("a calendar", (".ics",), "BEGIN:VCALENDAR\\b", way=_TAKE_OUT),
    FileType("an address book", (".vcf",), "BEGIN:VCARD\\b", way=_TAKE_OUT),
    FileType(
        "a bibliography",
        (".bib", ".ris"),
        r"(?>(?:\s++|%[^\n]*+\n)*)@\w++\s*+\{\s*+[^\s,{}]++,|\s*+TY  - [A-Z]{2,6}\s",
        way=_TAKE_OUT,
    ),
    FileType(
        "an e-mail",
        (".eml", ".mbox"),
        r"(?>(?:From |[A-Za-z][\w-]*+:)[^\n]*+\n(?:[ \t][^\n]*+\n)*){1,99}?"
        r"(?i:MIME-Version|Message-ID):\s",
        way="save its text by itself, as .txt or .html",
    ),
    FileType(
        "an Office document or e-book",
        (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".idml", ".epub"),
        r"PK\x03\x04",  # a ZIP archive
        is_text=False,
    ),
    FileType(
        "PDF, RTF or old Word",
        (".pdf", ".rtf", ".doc"),
        r"\{\\rtf|%PDF-\d",
        way="save it as .docx and convert that to XLIFF with Okapi Tikal",
        is_text=False,
    ),
    FileType(
        "a table of Parquet or Arrow",
        (PARQUET.suffix, ".arrow", ".feather"),
        r"PAR1[\x00-\x1f]|ARROW1\x00",
        way="write its text to a file, one line for each row",
        is_text=False,
    ),
)

_LINE_KINDS = (
    (
        "tags",
        re.compile(
            r"<([A-Za-z][\w:.-]{0,30})(?:\s[^<>]{0,300})?>.*?</\1\s*>"
            r'|<[A-Za-z][\w:.-]{0,30}(?:\s+[\w:.-]+="[^"<>]{0,300}")+\s*/?>'
            r"|\A\s*</?[A-Za-z][\w:.-]{0,30}/?>\s*\Z"
        ),
        "pass --markup html or xml to keep them, or --markup none if they are text",
    ),
    (
        "columns, parted by tabs",
        re.compile(r"\A(?:[-+]?\d[\d.,:]{0,30}\t)+\S|\S[ ]?\t+[ ]?\S"),
        "call it .tsv and name a column, as in --input x.tsv:1 --output y.tsv:2",
    ),
    (
        "keys, as in KEY = TEXT",
        re.compile(
            r"\A(?:-?[A-Za-z][\w.-]{0,100} ?= ?(?:\S|\Z)|[a-z_][\w.-]{0,100}:(?: +\S|\Z)"
            r"|\s+(?:\.[\w-]{1,50} =|\*?\[[\w-]{1,50}\] |[{}]))"
        ),
        _TAKE_OUT,
    ),
    (
        "markers or code",
        re.compile(
            r"\A\s*(?:\\\+?[a-z]{1,20}\d?\*?(?:[\s{[]|\Z)|//|/\*|\s\*/?(?:\s|\Z)"
            r"|[])}]*[;,({]*\Z|[])}]\w*\W*\Z"
            r"|(?:export|const|let|var|def|class|return|package|using|@\w+)\b.*[;:{(]\Z"
            r"|(?:from [\w.]+ )?import [\w.*, {}'\"@/-]+(?: from .*)?;?\Z"
            r"|[A-Z][A-Z0-9_]{2,}(?:\s+L?\"|\s*\Z|\s.*\b[A-Z]+_[A-Z])"
            r"|[\w.]+\(|[\w.\"'-]+\s?[=:]\s?[\"'`{[])"
            r"|\{\Z|[])}\"'];\Z|\s(?:[-+=!:<>|&]?=|[=-]>|&&|\|\|)\s|\A\s+(?:\w+\s)*\".*\":?\Z"
        ),
        _TAKE_OUT,
    ),
)
"""What most lines of a file may have, by which sign, and what to do."""


def file_type(path: Path) -> FileType | None:
    """Return the type of a file, by its name and its bytes; None if it is lines of text."""
    plain = path.with_suffix("") if path.suffix in SUFFIXES else path
    suffix = plain.suffix.lower()
    by_name = next((kind for kind in TYPES if suffix in kind.suffixes), None)
    if by_name is not None and (by_name.markup or suffix in _OF_JSON):
        return by_name
    return type_of_content(first_bytes(path)) or by_name


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed; none if it cannot be read more than once."""
    with contextlib.suppress(OSError, DataError):  # reported when it is read as a whole
        if path.is_file():
            return next(read_chunks(path, Encoding.find("utf-8"), any_bytes=True), b"")
    return b""


def is_document(path: Path) -> bool:
    """Tell whether a file is of a type that is translated as a document."""
    kind = file_type(path)
    return kind is not None and bool(kind.markup)


def document_type(path: Path) -> FileType | None:
    """Return the type of a document, None for lines; DataError if it is not supported."""
    kind = file_type(path)
    if kind is not None and (not kind.markup or path.suffix in SUFFIXES):
        raise DataError(kind.refusal(path))
    return kind


def type_of_content(content: bytes) -> FileType | None:
    """Return the type of what begins like this, if that is unmistakable."""
    head = decoded(content)
    fitting = (
        kind
        for kind in TYPES
        if (kind.sign and re.match(kind.sign, head, re.DOTALL))
        or (kind.name == "JSON" and _is_json(head))
    )
    return next(fitting, None)


def _is_json(text: str) -> bool:
    """Tell whether a text is JSON as a whole, with a string in it."""
    if text.lstrip()[:1] not in ("[", "{") or '"' not in text:
        return False
    with contextlib.suppress(ValueError, RecursionError):
        return bool(json.loads(text))
    return False


def odd_lines(content: bytes) -> tuple[str, str] | None:
    """Tell what most of the first lines have that is no text, and what to do; None: nothing."""
    stripped = (line[:_LONGEST_LINE].rstrip() for line in decoded(content).split("\n"))
    lines = list(islice((line for line in stripped if line and line[0] != "#"), _FIRST_LINES))
    for what, sign, way in _LINE_KINDS:
        if 2 * sum(bool(sign.search(line)) for line in lines) >= max(1, len(lines)):
            return what, way
    return None


def decoded(content: bytes) -> str:
    """Return the beginning of a file as text, by its byte-order mark."""
    head = content[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    codecs_by_start = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"} | UTF16_STARTS
    return head.decode(codecs_by_start.get(head[:2], "utf-8"), "replace")
