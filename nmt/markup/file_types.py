"""Types of files: which are translated as documents, as lines, or refused, by name and content.

A name decides if the type is supported. Otherwise the content does, if it is unmistakable: a plain
text may begin with a brace, a hash or a dash, and have lines such as `Note: see below`. A type that
is not supported and has no such sign is known by its name only.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError

FORMS = ("html", "xml")  # of markup
AS_LINES = "none"  # the form of markup of what is translated as lines, whatever its type
UTF16_STARTS = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
"""How markup in UTF-16 begins without a byte-order mark."""
_HEAD_BYTES = 1 << 16
_FEWEST_KEYS = 3  # of what is known by its lines
_FIRST_LINES = 100  # that are looked at for tags and the like
_LONGEST_LINE = 1_000  # characters of one that are looked at

_TIKAL = "convert it to XLIFF with Okapi Tikal"
_TAKE_OUT = "take its texts out into a .po or .xlf file"
_CUT = "translate only the text, such as `cut -f 3 FILE`, and paste it back"
_PANDOC = "convert it to .html with pandoc"

_STRING = r'"(?>(?:[^"\\\n]|\\.)*)"'
_PROLOG = (
    r"\s*+(?>(?:(?:<\?xml[^>]*\?>|<!--(?>(?:(?!-->).)*)-->|<!DOCTYPE[^>\[]*(?:\[[^\]]*\])?>)\s*+)*)"
)


@dataclass(frozen=True)
class FileType:
    """A type of files that have more in them than lines of text."""

    name: str
    suffixes: tuple[str, ...]
    sign: str = ""  # a pattern: how each one begins, whatever its name
    markup: str = ""  # the form of tags in its text; empty if it is not supported
    way: str = _TIKAL  # to translate one that is not supported
    is_text: bool = True
    line: str = ""  # a pattern that fits each of its lines, most of which have a key

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
        (".json", ".jsonl", ".arb", ".ipynb"),
        rf"\s*+[\[{{]\s*+(?:\{{\s*+)?{_STRING}\s*+:|\s*+\[[ \r]*+\n\s*+{_STRING}\s*+(?:,|\])",
    ),
    FileType(
        "YAML",
        (".yaml", ".yml"),
        line=r"""(?P<key> *+(?:- +)?(?:[a-z_][\w.-]*+|"[^"]+"|'[^']+'))\s*+:(?:\s.*)?|\s+\S.*"""
        r"|-(?:--)?(?: .*)?",
    ),
    FileType(
        "a .properties file",
        (".properties",),
        line=r"(?P<key>[\w.-]++)=.*|(?P<path>\w[\w-]*+[._][\w.-]++)\s*+[=:].*|\s+\S.*",
    ),
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
    FileType("wiki text", (".wiki", ".mediawiki", ".wikitext"), way=_PANDOC),
    FileType(
        "a template",
        (
            *(".vue", ".jsx", ".tsx", ".svelte", ".astro", ".ejs", ".erb", ".twig", ".njk"),
            *(".liquid", ".jinja", ".jinja2", ".j2", ".mustache", ".handlebars", ".cshtml", ".php"),
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
    FileType("CSV", (".csv",)),
    FileType(
        "a table with columns of numbers",
        (),
        way=_CUT,
        line=r"(?P<key>[-+]?\d[\d.,:]*+)\t.*|[^\t]++\t.*",
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
        (".parquet", ".arrow", ".feather"),
        r"PAR1[\x00-\x1f]|ARROW1\x00",
        way="write its text to a file, one line for each row",
        is_text=False,
    ),
)

_TAGGED = re.compile(
    r"<([A-Za-z][\w:.-]{0,30})(?:\s[^<>]{0,300})?>.*?</\1\s*>"
    r'|<[A-Za-z][\w:.-]{0,30}(?:\s+[\w:.-]+="[^"<>]{0,300}")+\s*/?>'
    r"|\s*</?[A-Za-z][\w:.-]{0,30}/?>\s*\Z"
)


_LINE_KINDS = (
    (
        "most lines have tags",
        2,
        _TAGGED,
        "pass --markup html or xml to keep them, or --markup none if they are text",
    ),
    ("most lines have columns of numbers", 2, re.compile(r"(?:[-+]?\d[\d.,:]{0,30}\t)+\S"), _CUT),
    (
        "many lines have headings, links or templates of a wiki",
        20,
        re.compile(
            r"(={2,6})[^=].*\1\s*\Z|.*\[\[[^][]{1,200}\]\]|.*\{\{[^{}|]{1,100}\||\{\||.*'{3}[^']"
        ),
        _PANDOC,
    ),
    (
        "most lines have keys, as in KEY = TEXT",
        2,
        re.compile(
            r"-?[A-Za-z][\w.-]{0,100} ?= ?(?:\S|\Z)"
            r"|\s+(?:\.[\w-]{1,50} =|\*?\[[\w-]{1,50}\] |[{}])"
        ),
        _TAKE_OUT,
    ),
    (
        "most lines are program code",
        2,
        re.compile(
            r".*(?:[{};]|=>|/>|\*/)\s*\Z|\s*</?[A-Za-z]|\s+[\w.]{1,50}\(.*\)\s*\Z"
            r"|\s*(?:import|from|export|const|let|def|return|if)\b.*['\"(=]"
        ),
        _TAKE_OUT,
    ),
)
"""What lines of a file may be like, the least part of them (a half, a twentieth), by which sign,
and what to do."""


def file_type(path: Path, content: bytes | None = None) -> FileType | None:
    """Return the type of a file, by its name and its bytes; None if it is lines of text."""
    plain = path.with_suffix("") if path.suffix in SUFFIXES else path
    suffix = plain.suffix.lower()
    by_name = next((kind for kind in TYPES if suffix in kind.suffixes), None)
    if by_name is not None and by_name.markup:
        return by_name
    return type_of_content(first_bytes(path) if content is None else content) or by_name


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed; none if it cannot be read more than once."""
    try:
        if path.is_file():
            return next(read_chunks(path, Encoding.find("utf-8"), any_bytes=True), b"")
    except (OSError, DataError):  # reported when it is read as a whole
        pass
    return b""


def document_form(path: Path) -> str | None:
    """Return the markup of a document, None for lines; DataError if its type is not read."""
    kind = file_type(path)
    if kind is None:
        return None
    if not kind.markup or path.suffix in SUFFIXES:
        beginning = first_bytes(path)
        is_lines = type_of_content(beginning) is None and has_tags(beginning)
        if kind.name in ("XML", "TMX", "SGML") and is_lines:
            raise DataError(
                f"{path}: its name is that of {kind.name}, which is not supported; if it is lines "
                "with tags, rename it to .txt, or pass it on stdin, with --markup xml"
            )
        raise DataError(kind.refusal(path))
    return kind.markup


def type_of_content(content: bytes) -> FileType | None:
    """Return the type of what begins like this, if that is unmistakable."""
    head = _decoded(content)
    lines = [line.rstrip() for line in head.split("\n") if line.strip()]
    if not head.endswith("\n"):  # the last one may be cut
        lines = lines[: max(_FEWEST_KEYS, len(lines) - 1)]
    fitting = (
        kind
        for kind in TYPES
        if (kind.sign and re.match(kind.sign, head, re.DOTALL))
        or (kind.name == "JSON" and _is_json(head))
        or (kind.line and _have_keys(lines, kind.line))
    )
    return next(fitting, None)


def _is_json(text: str) -> bool:
    """Tell whether a text is JSON as a whole, with a string in it."""
    if text.lstrip()[:1] not in ("[", "{") or '"' not in text:
        return False
    try:
        return bool(json.loads(text))
    except (ValueError, RecursionError):
        return False


def _have_keys(lines: Sequence[str], pattern: str) -> bool:
    """Tell whether a pattern fits all lines but comments, and most have a key of their own."""
    lines = [line for line in lines if not line.lstrip().startswith(("#", "!"))]
    found = [re.fullmatch(pattern, line) for line in lines]
    keys = [line[line.lastgroup] for line in found if line and line.lastgroup]
    outer = [key for key in keys if not key.startswith((" ", "-"))]
    is_most = len(keys) >= max(_FEWEST_KEYS, len(lines) / 2)
    return is_most and all(found) and len(set(outer)) == len(outer)


def has_tags(content: bytes) -> bool:
    """Tell whether at least half of the first lines have tags."""
    return _are_part(2, _first_lines(content), _TAGGED.search)


def odd_lines(content: bytes) -> tuple[str, str] | None:
    """Tell what many of the first lines have that is no text, and what to do; None: nothing."""
    lines = _first_lines(content)
    found = (
        (what, way)
        for what, part, sign, way in _LINE_KINDS
        if _are_part(part, lines, sign.search if sign is _TAGGED else sign.match)
    )
    return next(found, None)


def _first_lines(content: bytes) -> list[str]:
    """Return the first lines that are neither empty nor comments."""
    lines = (line[:_LONGEST_LINE].rstrip() for line in _decoded(content).split("\n"))
    return list(islice((line for line in lines if line and line[0] != "#"), _FIRST_LINES))


def _are_part(part: int, lines: Sequence[str], has_sign: Callable[[str], object]) -> bool:
    return part * sum(bool(has_sign(line)) for line in lines) >= max(1, len(lines))


def _decoded(content: bytes) -> str:
    head = content[:_HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    codecs_by_start = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"} | UTF16_STARTS
    return head.decode(codecs_by_start.get(head[:2], "utf-8"), "replace")
