"""XLIFF: empty targets are filled, and everything else stays.

In XLIFF 1.2, a unit is a trans-unit, or a segment that its seg-source marks, and in 2.0 a segment.
Its translation fills an empty target, or one that repeats the source. A target that says something
else is somebody's work, and stays.

Sources: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html,
https://docs.oasis-open.org/xliff/xliff-core/v2.0/xliff-core-v2.0.html.
"""

from __future__ import annotations

import html
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from xml.parsers import expat

from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.markup.document_units import Reading, Unit, without_mnemonic
from nmt.markup.markup_tokens import pair_up, tokenize
from nmt.markup.tags import parse
from nmt.markup.text_units import Span
from nmt.markup.xml_files import read_xml

_OPENING = re.compile(rb"""<([^\s/>]+)(?>(?:[^<>"']|"[^"]*"|'[^']*')*)>""")
_SPACE = "http://www.w3.org/XML/1998/namespace space"
MOST_OPEN_ELEMENTS = 1_000
"""Each inside the other. Each takes in the namespaces of the outer ones, so a small hostile file
could take all memory."""
_DONE = {"translated", "signed-off", "final", "reviewed"}
"""States of targets in XLIFF 1.2, and of segments in 2.0, that a person has given."""
_UNFINISHED = ("needs-", "new", "initial")
"""How the others of these states begin."""
_LOCKED = {"locked": {"true", "locked", "yes", "1"}}
_CONFIRMED = {
    "conf": {"translated", "approvedtranslation", "approvedsignoff"},
    "status": {"confirmed", "manuallyconfirmed", "confirmedtranslator", "proofread"},
    "confirmed": {"true", "1", "2"},
}
"""Attributes of Trados, memoQ and Phrase for units or segments, by their names without prefixes."""


@dataclass
class _Element:
    """An element, with what is inside it so far. Places are those of bytes."""

    name: str  # if it is of XLIFF's namespace, else nothing
    has: dict[str, str]  # attributes
    tag: str  # its name as it is written
    start: int
    inside: int  # where its content begins
    is_translated: bool
    keeps_spaces: bool
    closing: int = 0  # where its content ends
    end: int = 0
    sides: dict[str, _Element] = field(default_factory=dict)  # of a unit, by their names
    locked: set[str] = field(default_factory=set)  # numbers of its segments
    confirmed: set[str] = field(default_factory=set)


class Xliff:
    """What is translated in a file, and what is written around it."""

    def __init__(self, path: Path, text: str) -> None:
        """Read a file; DataError, naming the line, if it is not XLIFF or uses entities."""
        self._kept = 0  # units and segments that have a translation already
        self._protected = set[str]()  # ids of marks that begin what is not translated
        self._sources: list[str] = []
        self.pairs: list[tuple[str, str]] = []
        """The source and target of each unit, or of each segment in 2.0, as they are written."""
        self.finished: list[tuple[str, str]] = []
        """Of these, those with another target, which its state does not say is to be looked at."""
        self._lacks_language = False  # of targets, which XLIFF 2 needs
        self._path = path
        self._raw = text.encode()
        self._open: list[_Element] = []
        self._namespace = ""
        self._changes: list[tuple[int, int, list[str | Unit]]] = []  # start, end, what is there
        self._parser = expat.ParserCreate("utf-8", " ")
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        read_xml(path, self._parser, [self._raw], remedy="export it again")

    def reading(self) -> Reading:
        """Return what stays and what is translated."""
        parts: list[str | Unit | None] = [None] * self._kept
        last = 0
        for start, end, changed in sorted(self._changes, key=itemgetter(0)):
            parts += [self._text(last, start), *changed]
            last = end
        parts.append(self._text(last, len(self._raw)))
        return Reading(parts, self._sources, self._lacks_language)

    def _text(self, start: int, end: int) -> str:
        return self._raw[start:end].decode()

    def _begin(self, name: str, has: dict[str, str]) -> None:
        namespace, _, name = name.rpartition(" ")
        outer = self._open[-1] if self._open else None
        if outer is None and name != "xliff":
            raise DataError(f"{self._path}: not XLIFF: its first element is <{name}>")
        if outer is None:
            self._namespace = namespace
            self._lacks_language = has.get("version", "")[:1] == "2" and "trgLang" not in has
        if len(self._open) == MOST_OPEN_ELEMENTS:
            raise DataError(
                f"{self._path} line {self._parser.CurrentLineNumber:,}: more than "
                f"{MOST_OPEN_ELEMENTS:,} elements, each inside the other; export it again"
            )
        if namespace != self._namespace:
            name = ""
            self._note_marks(has)
        if name == "sm" and has.get("translate") == "no":
            self._protected.add(has.get("id", ""))
        self._protected.discard(has.get("startRef", "") if name == "em" else "")
        is_translated = not _is_marked(has, _LOCKED) and (
            has.get("translate") == "yes"
            or (has.get("translate") != "no" and (outer is None or outer.is_translated))
        )
        keeps_spaces = {"preserve": True, "default": False}.get(
            has.get(_SPACE, ""), outer is not None and outer.keeps_spaces
        )
        start = self._parser.CurrentByteIndex
        opening = _OPENING.match(self._raw, start)
        assert opening is not None  # since the file is valid so far
        tag, inside = opening[1].decode(), opening.end()
        self._open.append(_Element(name, has, tag, start, inside, is_translated, keeps_spaces))

    def _note_marks(self, has: Mapping[str, str]) -> None:
        """Note a segment of the unit around it that a program says is locked or confirmed."""
        unit = next((one for one in reversed(self._open) if one.name == "trans-unit"), None)
        if unit is not None and "id" in has:
            if _is_marked(has, _LOCKED):
                unit.locked.add(has["id"])
            if _is_marked(has, _CONFIRMED):
                unit.confirmed.add(has["id"])

    def _end(self, _name: str) -> None:
        element = self._open.pop()
        element.closing = element.end = element.inside
        if not self._raw.endswith(b"/>", element.start, element.inside):
            element.closing = self._parser.CurrentByteIndex
            element.end = self._raw.index(b">", element.closing) + 1
        is_unit = element.name in ("trans-unit", "segment")
        if is_unit and self._protected:
            raise DataError(
                f"{self._path}: what <sm id={self._protected.pop()}> protects from translation "
                "ends in another segment; mark it by <mrk> in each"
            )
        if is_unit and (source := element.sides.get("source")):
            side = element.sides.get("target")
            target = self._content(side)
            self.pairs.append((self._content(source), target))
            states = [one.has.get("state", "") for one in (element, side) if one]
            is_same = target.strip() in ("", self._content(source).strip())
            if not is_same and not any(state.startswith(_UNFINISHED) for state in states):
                self.finished.append(self.pairs[-1])
        if is_unit and element.is_translated:
            self._fill(element)
        elif self._open:
            self._open[-1].sides[element.name] = element

    def _content(self, side: _Element | None) -> str:
        return "" if side is None else self._text(side.inside, side.closing)

    def _fill(self, unit: _Element) -> None:
        source, target = unit.sides.get("source"), unit.sides.get("target")
        if source is None:
            return
        segmented = unit.sides.get("seg-source", source)
        content, present = self._content(segmented), self._content(target)
        self._sources.append(content)
        segments, written = _segments(content), _segments(present)
        said = {number: present[slice(*span)] for number, span in written.items()}
        with_text = {number for number, text in said.items() if text.strip()}
        by_segment = bool(segments and written) and with_text <= segments.keys()
        by_segment = by_segment and not _without(present, written).strip()
        kept = self._kept
        if self._is_done(unit, target) or (
            _says_more(present, content, self._content(source)) and not by_segment
        ):
            self._kept += 1
            return
        if target is not None:
            tag, start, end = target.tag, target.start, target.end
            opening = self._text(start, target.inside)
            if opening.endswith("/>"):
                opening = f"{opening.removesuffix('/>').rstrip()}>"
        else:
            tag, start, end = re.sub("source$", "target", source.tag), segmented.end, segmented.end
            indentation = self._text(self._raw.rfind(b">", 0, source.start) + 1, source.start)
            space = ' xml:space="preserve"' if _SPACE in source.has and source.keeps_spaces else ""
            opening = f"{indentation}<{tag}{space}>"
        closing = f"</{tag}>"
        parts: list[str | Unit] = []
        if segments:
            parts = [opening, *self._segmented(unit, content, segments, said), closing]
        elif filled := _unit(content, opening, closing, self._text(start, end)):
            parts = [filled]
        elif content:
            parts = [opening, content, closing]
        texts = [part for part in parts if isinstance(part, str)]
        is_changed = len(texts) < len(parts) or "".join(texts) != self._text(start, end)
        if is_changed and (self._kept < kept + len(segments) if segments else parts):
            self._changes.append((start, end, parts))

    def _is_done(self, unit: _Element, target: _Element | None) -> bool:
        """Tell whether a unit has a target that somebody approves of, whatever it says."""
        if target is None or not parse(self._content(target), "xml").text.strip():
            return False
        return (
            unit.has.get("approved") == "yes"
            or _is_marked(unit.has, _CONFIRMED)
            or bool({unit.has.get("state"), target.has.get("state")} & _DONE)
        )

    def _segmented(
        self, unit: _Element, content: str, segments: dict[str, Span], said: dict[str, str]
    ) -> Iterator[str | Unit]:
        """Yield the content of a target, with the segments of its source.

        said: by segment, what the target says now.
        """
        last = 0
        for number, (start, end) in segments.items():
            source, target = content[start:end], said.get(number, "")
            yield content[last:start]
            is_confirmed = number in unit.confirmed and bool(target.strip())
            if number in unit.locked or is_confirmed or _says_more(target, source):
                self._kept += 1
                yield target
            else:
                yield _unit(source, otherwise=target) or source
            last = end
        yield content[last:]


def _unit(raw: str, before: str = "", after: str = "", otherwise: str = "") -> Unit | None:
    """Return a unit with the spaces around its text left where they are; None without words."""
    marked = MarkedLines.of(raw.strip(), "xml")
    if not marked.has_words:
        return None
    opening, closing = raw.split(marked.markup, maxsplit=1)
    return without_mnemonic(Unit(marked, before + opening, closing + after, otherwise))


def _is_marked(has: Mapping[str, str], marks: Mapping[str, Container[str]]) -> bool:
    said = ((name.rpartition(" ")[2], value.lower()) for name, value in has.items())
    return any(value in marks.get(name, ()) for name, value in said)


def _segments(content: str) -> dict[str, Span]:
    """Return where each segment's text begins and ends, by its number, in a source or target."""
    tokens = list(tokenize(content, "xml"))
    pairs = pair_up(tokens, "xml")
    spans: dict[str, Span] = {}
    for index, token in enumerate(tokens):
        if token.name == "mrk" and token.kind in ("open", "empty"):
            has = token.attributes()
            if has.get("mtype") == "seg":
                end = max(token.end, tokens[pairs.get(index, index)].start)
                spans[html.unescape(has.get("mid", f"number {len(spans)}"))] = token.end, end
    return spans


def _without(content: str, segments: dict[str, Span]) -> str:
    """Return the text of a target outside its segments."""
    spans = [(0, 0), *segments.values(), (len(content), 0)]
    outside = "".join(content[end:start] for (_, end), (start, _) in pairwise(spans))
    return parse(outside, "xml").text


def _says_more(target: str, *sources: str) -> bool:
    """Tell whether a target has text, and does not only repeat its source."""
    if target.strip() in ("", *(source.strip() for source in sources)):
        return False
    return bool(parse(target, "xml").text.strip() or not parse(sources[0], "xml").text.strip())
