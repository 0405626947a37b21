"""Documents: HTML and XLIFF files, of which text is translated and everything else stays.

A document is cut into units, which are lines with markup. In HTML, a unit is what comes between two
tags that are not part of running text, such as `<p>`, `<td>` or `<br>`; in `<pre>`, it is a line.
In XLIFF 1.2 it is a trans-unit, and in 2.0 a segment. Its translation fills an empty target, or one
that repeats the source. A target that says something else is somebody's work, and stays.

A document keeps its encoding. Characters that this does not have are written as numbers.

Sources: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html,
https://docs.oasis-open.org/xliff/xliff-core/v2.0/xliff-core-v2.0.html.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from nmt.data.compressed import SUFFIXES
from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.translate.markup import Token, elements, parse, tokenize
from nmt.translate.options import TranslateOptions

_FORMS = {".html": "html", ".htm": "html", ".xhtml": "html", ".xlf": "xml", ".xliff": "xml"}

_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn"),
    *("em", "font", "i", "img", "ins", "kbd", "mark", "math", "q", "rp", "rt", "ruby", "s"),
    *("samp", "small", "span", "strike", "strong", "sub", "sup", "svg", "time", "tt", "u"),
    *("var", "wbr"),
}
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
    "html": re.compile(
        _DECLARED_IN_XML + rb"""|<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
    ),
    "xml": re.compile(_DECLARED_IN_XML),
}
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARATION_BYTES = 2_048


def form_of(path: Path) -> str | None:
    """Return the form of markup of a document, by its name; None if it is text."""
    return _FORMS.get(path.suffix.lower())


def common_form(paths: Sequence[Path], markup: str | None) -> str | None:
    """Return the form of markup of all inputs, given that of the option.

    Raises:
        UsageError: if a document has another form than the option, or than the other inputs, or
            is compressed.
    """
    first = paths[0]
    form = form_of(first) if markup is None else markup
    for path in paths:
        own = form_of(path)
        if markup is None and path.suffix in SUFFIXES and form_of(path.with_suffix("")):
            raise UsageError(f"{path}: is a compressed document; decompress it first")
        if own is not None and own != form:
            needed = "is text" if form is None else f"needs --markup {form}"
            found = f"{first} {needed}" if markup is None else f"this is --markup {markup}"
            raise UsageError(f"{path}: needs --markup {own}, but {found}; translate them apart")
        if own is None and markup is None and form is not None:
            raise UsageError(
                f"{path}: is text, but {first} is a document; translate them apart, or give "
                f"--markup {form} if the text has tags"
            )
    return form


def check_for_documents(options: TranslateOptions) -> None:
    """Refuse options that a document has no place for.

    Raises:
        UsageError: naming one.
    """
    needing_text = {
        "--format jsonl": options.format == "jsonl",
        "--n-best": options.n_best is not None,
        "--scores": options.scores,
        "--alignment": options.alignment,
        "--attention": options.attention is not None,
        "--prefixes": options.prefixes,
        "--context": options.context > 0,
        "--shard": options.shard != "1/1",
    }
    for option, is_given in needing_text.items():
        if is_given:
            raise UsageError(f"{option} is for lines of text; a document has no place for it")


@dataclass(frozen=True)
class Unit:
    """A part of a document that is translated."""

    line: str  # its markup
    before: str = ""  # what is written around a translation
    after: str = ""
    otherwise: str = ""  # what is written if there is none


@dataclass
class Document:
    """A document, cut into units and what stays."""

    path: Path
    form: str
    encoding: str
    bom: bytes
    parts: list[str | Unit] = field(default_factory=list)
    kept: int = 0  # units that have a translation already

    @classmethod
    def read(cls, path: Path, content: bytes, encoding: Encoding) -> Document:
        """Read a document.

        Args:
            path: its name.
            content: its bytes.
            encoding: if it does not say itself which it has.

        Raises:
            DataError: if it is not valid in its encoding, or is XLIFF and damaged.
        """
        form = form_of(path)
        assert form is not None
        bom = next((bom for bom in _BOMS if content.startswith(bom)), b"")
        head = _COMMENT.sub(b"", content[:_DECLARATION_BYTES])
        declared = None if bom else _DECLARED[form].search(head)
        name = _BOMS.get(bom, encoding.name)
        if declared is not None and declared.lastindex:
            name = declared[declared.lastindex].decode("ascii")
        try:
            text = content[len(bom) :].decode(name)
        except LookupError:
            raise DataError(f"{path}: its encoding {name!r} is unknown; save it as UTF-8") from None
        except UnicodeError:
            says = bom or declared
            hint = "which it says it has; correct that" if says else "pass its --encoding"
            raise DataError(
                f"{path}: not valid {name}{',' if says else ';'} {hint}, or save it as UTF-8"
            ) from None
        document = cls(path, form, name, bom)
        document.parts = list(_html_parts(text) if form == "html" else document._xliff(text))
        return document

    @property
    def units(self) -> list[Unit]:
        return [part for part in self.parts if isinstance(part, Unit)]

    def write(self, translations: Iterable[str | None]) -> bytes:
        """Return the document with a translation of each unit, or None."""
        waiting = iter(translations)
        text = "".join(
            part if isinstance(part, str) else _written(part, next(waiting)) for part in self.parts
        )
        return self.bom + text.encode(self.encoding, "xmlcharrefreplace")

    def _xliff(self, text: str) -> Iterator[str | Unit]:
        _check_xliff(self.path, text)
        edits = _Xliff(text)
        self.kept = edits.kept
        last = 0
        for start, end, part in sorted(edits.found, key=lambda one: one[0]):
            yield text[last:start]
            yield part
            last = end
        yield text[last:]


def _written(unit: Unit, translation: str | None) -> str:
    return unit.otherwise if translation is None else unit.before + translation + unit.after


def _unit(raw: str, before: str = "", after: str = "", otherwise: str | None = None) -> Unit:
    """Return a unit with the spaces around its text left where they are."""
    opening = raw[: len(raw) - len(raw.lstrip())]
    line = raw.strip()
    closing = raw[len(opening) + len(line) :]
    otherwise = raw if otherwise is None else otherwise
    return Unit(line, before + opening, closing + after, otherwise)


def _html_parts(text: str) -> Iterator[str | Unit]:
    run: list[str] = []  # of running text
    in_pre = 0
    for token in elements(text, "html"):
        if token.name == "pre":
            in_pre += {"open": 1, "close": -1}.get(token.kind, 0)
        if token.kind == "text" and in_pre > 0:
            *lines, rest = re.split(r"(?<=\n)", token.raw)
            for line in lines:
                yield _running("".join([*run, line]))
                run = []
            run.append(rest)
        elif _is_running(token):
            run.append(token.raw)
        else:
            yield _running("".join(run))
            yield token.raw
            run = []
    yield _running("".join(run))


def _is_running(token: Token) -> bool:
    if token.kind == "other":
        return token.raw.startswith("<!--")
    return token.kind == "text" or token.name in _INLINE


def _running(raw: str) -> str | Unit:
    return _unit(raw) if parse(raw, "html").has_words else raw


def _check_xliff(path: Path, text: str) -> None:
    """Refuse what is not XLIFF, or declares entities: those could make it grow without bound.

    Raises:
        DataError: naming the line.
    """
    first: list[str] = []

    def start(name: str, _attributes: dict[str, str]) -> None:
        if not first and name.rpartition(":")[2] != "xliff":
            raise DataError(f"{path}: not XLIFF: its first element is <{name}>")
        first.append(name)

    def refuse(name: str, *_: object) -> None:
        raise DataError(
            f"{path}: uses the entity &{name};, which XLIFF does not need; replace it by its text"
        )

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        what = expat.errors.messages.get(error.code, "damaged")
        raise DataError(
            f"{path} line {error.lineno:,}: not valid XML ({what}); export it again"
        ) from None


@dataclass
class _Side:
    """A source or target of a unit."""

    opening: Token
    start: int  # of its content
    end: int
    after: int  # where its closing tag ends


@dataclass
class _Open:
    """An element that is open."""

    token: Token
    is_translated: bool
    sides: dict[str, _Side] = field(default_factory=dict)  # of a unit


class _Xliff:
    """Finds what to change in a valid XLIFF file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[tuple[int, int, str | Unit]] = []  # start, end, and what replaces it
        self.kept = 0
        waiting: list[_Open] = []
        for token in tokenize(text, "xml"):
            if token.kind == "open":
                waiting.append(_Open(token, self._is_translated(token, waiting)))
            elif token.kind == "close":
                closed = waiting.pop()
                if closed.token.name in ("trans-unit", "segment") and closed.is_translated:
                    self._fill(closed.sides)
                elif waiting:
                    self._note(waiting[-1], closed.token, token.start, token.end)
            elif token.kind == "empty" and waiting:
                self._note(waiting[-1], token, token.end, token.end)

    def _is_translated(self, token: Token, waiting: Sequence[_Open]) -> bool:
        own = token.attributes().get("translate")
        return own == "yes" or (own != "no" and (not waiting or waiting[-1].is_translated))

    def _note(self, parent: _Open, token: Token, end: int, after: int) -> None:
        if parent.token.name in ("trans-unit", "segment"):
            parent.sides[token.name] = _Side(token, token.end, end, after)

    def _content(self, side: _Side | None) -> str:
        return "" if side is None else self.text[side.start : side.end]

    def _fill(self, sides: dict[str, _Side]) -> None:
        source, target = sides.get("source"), sides.get("target")
        if source is None:
            return
        segmented = sides.get("seg-source", source)
        content, present = self._content(segmented), self._content(target).strip()
        if present and present not in (content.strip(), self._content(source).strip()):
            self.kept += 1
            return
        name = re.sub("source$", "target", _name_of(source.opening))
        if target is not None:
            name = _name_of(target.opening)
            opening = re.sub(r"\s*/>$", ">", target.opening.raw)
            start, end = target.opening.start, target.after
        else:
            indentation = self.text[: source.opening.start].rpartition(">")[2]
            opening = f"{indentation}<{name}>"
            start = end = segmented.after
        closing = f"</{name}>"
        if parse(content, "xml").has_words:
            unit = _unit(content, opening, closing, self.text[start:end])
            self.found.append((start, end, unit))
        elif content:
            self.found.append((start, end, opening + content + closing))


def _name_of(token: Token) -> str:
    """Return the name of an element with its namespace's prefix."""
    return re.split(r"[\s/>]", token.raw[1:], maxsplit=1)[0]
