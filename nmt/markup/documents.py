"""Documents: files of which text is translated and everything else stays, such as HTML and XLIFF.

A document is cut into units of markup. In HTML, a unit is what comes between two tags that are not
part of running text, such as `<p>`, `<td>` or `<br>`; in `<pre>`, it is a line or a wrapped
sentence. In XLIFF 1.2 it is a trans-unit, or a segment that its seg-source marks, and in 2.0 a
segment. Its translation fills an empty target, or one that repeats the source. A target that says
something else is somebody's work, and stays.

Catalogues and subtitles have files of their own.

A document keeps its encoding. Characters that this does not have are written as numbers, or the
document fails if its type has none. HTML that says it is Latin-1 or ASCII is read as Windows-1252,
as browsers do.

Sources: https://encoding.spec.whatwg.org/#names-and-labels,
https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html,
https://docs.oasis-open.org/xliff/xliff-core/v2.0/xliff-core-v2.0.html.
"""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from xml.parsers import expat

from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.markup.breaks import cut_at_breaks, unwrap
from nmt.markup.catalogues import catalogue_parts
from nmt.markup.document_units import Unit, without_mnemonic
from nmt.markup.file_types import UTF16_STARTS, FileType, file_type
from nmt.markup.kept_pieces import may_be_placeholders
from nmt.markup.markup_tokens import Token, elements, pair_up, tokenize
from nmt.markup.subtitles import subtitle_parts
from nmt.markup.tags import parse

_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del"),
    *("dfn", "em", "font", "i", "img", "ins", "kbd", "mark", "math", "nobr", "q", "rp", "rt"),
    *("ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "svg", "time"),
    *("tt", "u", "var", "wbr"),
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
    "HTML": re.compile(
        _DECLARED_IN_XML + rb"""|<meta[^>]{0,200}?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
    ),
    "XLIFF": re.compile(_DECLARED_IN_XML),
    "PO": re.compile(rb"""Content-Type:[^\n"]*charset=(?!CHARSET)([\w.:-]+)"""),
}
_KEY = re.compile(r"\w[\w-]{0,99}(?:[._:/]+[\w-]{1,100}){1,20}", re.ASCII)
"""A source that stands for a text, such as `person.group.sponsors`, in catalogues of Symfony."""
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_DECLARATION_BYTES = 4_096
MOST_OPEN_ELEMENTS = 1_000
"""Elements of XLIFF, each inside the other. Each takes in the namespaces of the outer ones, so a
small hostile file could take all memory."""
_DONE = {"translated", "signed-off", "final", "reviewed"}
"""States of targets in XLIFF 1.2, and of segments in 2.0, that a person has given."""
_LOCKED = {"locked": {"true", "locked", "yes", "1"}}
_CONFIRMED = {
    "conf": {"translated", "approvedtranslation", "approvedsignoff"},
    "status": {"confirmed", "manuallyconfirmed", "confirmedtranslator", "proofread"},
    "confirmed": {"true", "1", "2"},
}
"""Attributes of Trados, memoQ and Phrase for units or segments, by their names without prefixes."""


@dataclass
class Document:
    """A document, cut into units and what stays."""

    path: Path
    type: FileType
    encoding: str
    bom: bytes
    parts: list[str | Unit] = field(default_factory=list)
    kept: int = 0  # units that have a translation already
    lacks_language: bool = False  # of targets, which XLIFF 2 needs
    sources: list[str] = field(default_factory=list)  # of all units
    refused: int = 0  # translations that did not fit in the document, when it was written
    changed: list[str] = field(default_factory=list)  # what may be placeholders, and was lost
    notices: list[str] = field(default_factory=list)  # what else to tell of it

    @classmethod
    def read(cls, path: Path, content: bytes, encoding: Encoding) -> Document:
        """Read a document.

        Args:
            path: its name.
            content: its bytes.
            encoding: if it does not say itself which it has.

        Raises:
            DataError: if it is not valid in its encoding, or is damaged.
        """
        file = file_type(path, content)
        if file is None:
            raise DataError(f"{path}: is a compressed document; decompress it first")
        bom = next((bom for bom in _BOMS if content.startswith(bom)), b"")
        head = _COMMENT.sub(b"", content[:_DECLARATION_BYTES])
        declaration = None if bom else _DECLARED.get(file.name)
        declared = declaration and declaration.search(head)
        name = _BOMS.get(bom) or UTF16_STARTS.get(content[:2], encoding.name)
        if declared is not None and declared.lastindex:
            name = declared[declared.lastindex].decode("ascii")
        try:
            if declared and file.name == "HTML":
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
        document = cls(path, file, name, bom)
        parts = list(document._parts(text))
        document.parts = [part for part in parts if part is not None]
        document.kept += parts.count(None)
        document.sources = document.sources or [unit.line for unit in document.units]
        return document

    def _parts(self, text: str) -> Iterator[str | Unit | None]:
        """Yield what stays, what is translated, and None for what has a translation already."""
        match self.type.name:
            case "HTML":
                return _html_parts(text)
            case "PO":
                return catalogue_parts(self.path, text, self.encoding)
            case "subtitles":
                return subtitle_parts(self.path, text, self.notices.append)
        return self._xliff(text)

    @property
    def units(self) -> list[Unit]:
        return [part for part in self.parts if isinstance(part, Unit)]

    @property
    def key(self) -> str:
        """The first of the sources that look like keys, if most do; empty if not."""
        keys = [source for source in self.sources if _KEY.fullmatch(source.strip())]
        return keys[0] if 2 * len(keys) > len(self.sources) else ""

    def write(self, translations: Iterable[str | None]) -> bytes:
        """Return the document with a translation of each unit, or None."""
        waiting = iter(translations)
        written, self.refused, self.changed = list[str](), 0, []
        for part in self.parts:
            if isinstance(part, str):
                written.append(part)
                continue
            translation = next(waiting)
            translated = part.write(translation)
            written.append(part.otherwise if translated is None else translated)
            self.refused += translated is None and translation is not None
            if translated is not None and translation is not None:
                lost = may_be_placeholders(part.line) - may_be_placeholders(translation)
                self.changed += list(lost)[:1]
        text = "".join(written)
        has_references = self.type.name in ("HTML", "XLIFF")
        try:
            encoded = text.encode(
                self.encoding, "xmlcharrefreplace" if has_references else "strict"
            )
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self.path}: {self.encoding} has no {text[error.start]!r}, which is in the "
                "translation; save it as UTF-8"
            ) from None
        return self.bom + encoded

    def _xliff(self, text: str) -> Iterator[str | Unit]:
        _check_xliff(self.path, text)
        edits = _Xliff(text)
        self.kept = edits.kept
        self.sources = edits.sources
        self.lacks_language = edits.lacks_language
        last = 0
        for start, end, parts in sorted(edits.changes, key=lambda change: change[0]):
            yield text[last:start]
            yield from parts
            last = end
        yield text[last:]


def _as_browsers_do(name: str) -> str:
    """Return the encoding of an HTML file whose bytes, read as ASCII, name one."""
    known = codecs.lookup(name).name
    if known in ("iso8859-1", "ascii"):
        return "windows-1252"
    return "utf-8" if known.startswith(("utf-16", "utf-32")) else name


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
        if _is_running(token):
            run.append(token.raw)
            continue
        yield from _running("".join(run), in_pre=in_pre > 0)
        yield token.raw
        run = []
        if token.name == "pre":
            in_pre += {"open": 1, "close": -1}.get(token.kind, 0)
    yield from _running("".join(run), in_pre=in_pre > 0)


def _is_running(token: Token) -> bool:
    if token.kind == "other":
        return token.raw.startswith("<!--")
    is_in_text = not token.name[:1].isalpha()  # a text, a message, or a tag written in text
    return is_in_text or token.name in _INLINE


def _running(raw: str, *, in_pre: bool) -> Iterator[str | Unit]:
    """Yield the lines of running text, and what is between them."""
    lines, between = cut_at_breaks(raw, "html", at_line_ends=in_pre)
    yield between[0]
    beside = [between[0].rpartition("\n")[2]]  # the line, in its own line
    for line, after in zip(lines, between[1:], strict=True):
        column = 0
        if in_pre and "\n" in line.raw:  # where it begins tells whether it is wrapped
            column = len(parse("".join(beside), "html").text.expandtabs())
        raw = line.raw if in_pre else unwrap(line.raw)
        spell = itemgetter(slice(column, None))
        yield Unit(" " * column + raw, otherwise=line.raw, spell=spell)
        yield after
        _, newline, end = (line.raw + after).rpartition("\n")
        if newline:
            beside.clear()
        beside.append(end)


def _check_xliff(path: Path, text: str) -> None:
    """Refuse what is not XLIFF, or declares entities: those could make it grow without bound.

    Raises:
        DataError: naming the line.
    """
    first: list[str] = []
    open_elements = 0

    def start(name: str, _attributes: dict[str, str]) -> None:
        nonlocal open_elements
        open_elements += 1
        if open_elements > MOST_OPEN_ELEMENTS:
            raise DataError(
                f"{path} line {parser.CurrentLineNumber:,}: more than {MOST_OPEN_ELEMENTS:,} "
                "elements, each inside the other; export it again"
            )
        if not first and name.rpartition(" ")[2] != "xliff":
            raise DataError(f"{path}: not XLIFF: its first element is <{name.rpartition(' ')[2]}>")
        first.append(name)

    def end(_name: str) -> None:
        nonlocal open_elements
        open_elements -= 1

    def refuse(name: str, *_: object) -> None:
        raise DataError(
            f"{path}: uses the entity &{name};, which XLIFF does not need; replace it by its text"
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = refuse
    parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "damaged")
        raise DataError(
            f"{path} line {error.lineno:,}: not valid XML ({reason}); export it again"
        ) from None


@dataclass
class _Side:
    """A source or target of a unit."""

    opening: Token
    start: int  # of its content
    end: int
    after: int  # where its closing tag ends
    keeps_spaces: bool


@dataclass
class _Open:
    """An element that is open."""

    token: Token
    name: str  # if it is of XLIFF's namespace, else nothing
    declared: dict[str, str]  # namespaces by prefix
    is_translated: bool
    keeps_spaces: bool
    sides: dict[str, _Side] = field(default_factory=dict)  # of a unit
    locked: set[str] = field(default_factory=set)  # numbers of its segments
    confirmed: set[str] = field(default_factory=set)


class _Xliff:
    """Finds what to change in a valid XLIFF file."""

    def __init__(self, text: str) -> None:
        self.text = text
        # Start, end, and what replaces it.
        self.changes: list[tuple[int, int, list[str | Unit]]] = []
        self.kept = 0
        self.sources: list[str] = []
        self.namespace: str | None = None
        self.lacks_language = False
        waiting: list[_Open] = []
        for token in tokenize(text, "xml"):
            if token.kind == "open":
                waiting.append(self._opened(token, waiting))
            elif token.kind == "close":
                closed = waiting.pop()
                if closed.name in ("trans-unit", "segment") and closed.is_translated:
                    self._fill(closed)
                elif waiting:
                    side = _Side(
                        closed.token, closed.token.end, token.start, token.end, closed.keeps_spaces
                    )
                    waiting[-1].sides[closed.name] = side
            elif token.kind == "empty" and waiting:
                opened = self._opened(token, waiting)
                side = _Side(token, token.end, token.end, token.end, opened.keeps_spaces)
                waiting[-1].sides[opened.name] = side

    def _opened(self, token: Token, waiting: Sequence[_Open]) -> _Open:
        """Return an element that begins inside those that are open."""
        whole = _Open(token, "", {}, is_translated=True, keeps_spaces=False)
        outer = waiting[-1] if waiting else whole
        has = token.attributes()
        declared = {name[6:]: uri for name, uri in has.items() if name.split(":")[0] == "xmlns"}
        prefix = _name_of(token).rpartition(":")[0].lower()
        inside_out = (declared, *(element.declared for element in reversed(waiting)))
        namespace = next(
            (scope[prefix] for scope in inside_out if prefix in scope), None if prefix else ""
        )
        if not waiting:
            self.namespace = namespace
            self.lacks_language = has.get("version", "")[:1] == "2" and "trglang" not in has
        is_translated = not _is_marked(has, _LOCKED) and (
            has.get("translate") == "yes" or (has.get("translate") != "no" and outer.is_translated)
        )
        name = token.name if namespace == self.namespace else ""
        if not name and "id" in has:
            _note_marks(has, waiting)
        keeps_spaces = {"preserve": True, "default": False}.get(
            has.get("xml:space", ""), outer.keeps_spaces
        )
        return _Open(token, name, declared, is_translated, keeps_spaces)

    def _content(self, side: _Side | None) -> str:
        return "" if side is None else self.text[side.start : side.end]

    def _fill(self, unit: _Open) -> None:
        source, target = unit.sides.get("source"), unit.sides.get("target")
        if source is None:
            return
        segmented = unit.sides.get("seg-source", source)
        content, present = self._content(segmented), self._content(target)
        self.sources.append(content)
        segments, written = _segments(content), _segments(present)
        by_segment = segments and written and not _without(present, written).strip()
        kept = self.kept
        if self._is_done(unit, target) or (
            _says_more(present, content, self._content(source)) and not by_segment
        ):
            self.kept += 1
            return
        name = re.sub("source$", "target", _name_of(source.opening))
        if target is not None:
            name = _name_of(target.opening)
            opening = target.opening.raw
            if target.opening.kind == "empty":
                opening = f"{opening.removesuffix('/>').rstrip()}>"
            start, end = target.opening.start, target.after
        else:
            line_start = self.text.rfind(">", 0, source.opening.start) + 1
            indentation = self.text[line_start : source.opening.start]
            is_own = "xml:space" in source.opening.attributes()
            space = ' xml:space="preserve"' if is_own and source.keeps_spaces else ""
            opening = f"{indentation}<{name}{space}>"
            start = end = segmented.after
        closing = f"</{name}>"
        parts: list[str | Unit] = []
        if segments:
            own = self._segmented(unit, content, segments, present, written)
            parts = [opening, *own, closing]
        elif parse(content, "xml").has_words:
            unit_of_text = _unit(content, opening, closing, self.text[start:end])
            parts = [without_mnemonic(unit_of_text)]
        elif content:
            parts = [opening, content, closing]
        texts = [part for part in parts if isinstance(part, str)]
        is_changed = len(texts) < len(parts) or "".join(texts) != self.text[start:end]
        if is_changed and (self.kept < kept + len(segments) if segments else parts):
            self.changes.append((start, end, parts))

    def _is_done(self, unit: _Open, target: _Side | None) -> bool:
        """Tell whether a unit has a target that somebody approves of, whatever it says."""
        if target is None or not parse(self._content(target), "xml").text.strip():
            return False
        has, of_target = unit.token.attributes(), target.opening.attributes()
        return (
            has.get("approved") == "yes"
            or _is_marked(has, _CONFIRMED)
            or bool({has.get("state"), of_target.get("state")} & _DONE)
        )

    def _segmented(
        self,
        unit: _Open,
        content: str,
        segments: dict[str, tuple[int, int]],
        present: str,
        written: dict[str, tuple[int, int]],
    ) -> Iterator[str | Unit]:
        """Yield the content of a target, with the segments of its source and what it says now."""
        last, others = 0, _other_segments(present, written, segments)
        for number, (start, end) in segments.items():
            source, said = content[start:end], present[slice(*written.get(number, (0, 0)))]
            yield others.pop("", "") + content[last:start]
            is_confirmed = number in unit.confirmed and bool(said.strip())
            if number in unit.locked or is_confirmed or _says_more(said, source):
                self.kept += 1
                yield said
            else:
                has_words = parse(source, "xml").has_words
                whole = _unit(source, otherwise=said)
                yield without_mnemonic(whole) if has_words else source
            last = end
            if number in others:
                last = _after_segment(content, end)
                yield content[end:last] + others[number]
        yield content[last:]


def _is_marked(attributes: Mapping[str, str], marks: Mapping[str, Container[str]]) -> bool:
    return any(
        value.lower() in marks.get(name.rpartition(":")[2], ())
        for name, value in attributes.items()
    )


def _note_marks(attributes: Mapping[str, str], waiting: Sequence[_Open]) -> None:
    """Note a segment of the unit around it that is locked or confirmed."""
    unit = next((one for one in reversed(waiting) if one.name == "trans-unit"), None)
    if unit is not None and _is_marked(attributes, _LOCKED):
        unit.locked.add(attributes["id"])
    if unit is not None and _is_marked(attributes, _CONFIRMED):
        unit.confirmed.add(attributes["id"])


def _segments(content: str) -> dict[str, tuple[int, int]]:
    """Return where each segment's text begins and ends, by its number, in a source or target."""
    tokens = list(tokenize(content, "xml"))
    pairs = pair_up(tokens, "xml")
    spans: dict[str, tuple[int, int]] = {}
    for index, token in enumerate(tokens):
        if token.name == "mrk" and token.kind in ("open", "empty"):
            has = token.attributes()
            if has.get("mtype") == "seg":
                closing = tokens[pairs.get(index, index)]
                end = closing.start if closing is not token else token.end
                spans[has.get("mid", f"number {len(spans)}")] = token.end, end
    return spans


def _other_segments(
    target: str, written: dict[str, tuple[int, int]], segments: Container[str]
) -> dict[str, str]:
    """Return the segments that a source lacks, with their tags, by the number of the one before."""
    others = defaultdict[str, str](str)
    before, last = "", 0
    for number, (start, end) in written.items():
        after = _after_segment(target, end)
        if number in segments:
            before = number
        elif target[start:end].strip():
            opening = target.rfind("<", 0, start)
            space = len(target[:opening].rstrip())
            others[before] += target[max(last, space) : after]
        last = after
    return others


def _after_segment(content: str, end: int) -> int:
    """Return where the closing tag of a segment ends, given the end of its text."""
    return content.index(">", end) + 1 if content.startswith("</", end) else end


def _without(content: str, segments: dict[str, tuple[int, int]]) -> str:
    """Return the text of a target outside its segments."""
    spans = [(0, 0), *segments.values(), (len(content), 0)]
    outside = "".join(content[end:start] for (_, end), (start, _) in pairwise(spans))
    return parse(outside, "xml").text


def _says_more(target: str, *sources: str) -> bool:
    """Tell whether a target has text, and does not only repeat its source."""
    if target.strip() in ("", *(source.strip() for source in sources)):
        return False
    return bool(parse(target, "xml").text.strip() or not parse(sources[0], "xml").text.strip())


def _name_of(token: Token) -> str:
    """Return the name of an element with its namespace's prefix."""
    return re.split(r"[\s/>]", token.raw[1:], maxsplit=1)[0]
