"""Test sets in WMT's SGML or XML, also those of IWSLT: their segments are lines of text.

SGML is `<srcset>`, `<refset>` or `<tstset>` with `<seg id="1">` in `<doc docid="a">`. IWSLT wraps
it in `<mteval>` and names it `.xml`. WMT's XML since 2021 is in `wmt_xml`, and may hold both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from nmt.data.corpus import Encoding, decode_lines, read_chunks, read_lines
from nmt.errors import DataError
from nmt.markup.wmt_xml import Segments, read_side

_ENDING = r"(?:\.(?:gz|xz|bz2|zst))?"
_SGML = re.compile(rf".+\.sgml?{_ENDING}", re.IGNORECASE)
_XML = re.compile(rf"(?P<file>.+\.xml{_ENDING})(?::(?P<whose>[^/]+))?", re.IGNORECASE)
_SET = re.compile(rb"<(?:mteval|srcset|refset|tstset)[\s>]", re.IGNORECASE)
_FIRST_TAG = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?>(?:<[?!][^<>]*+>\s*+)*)(?=<\w)")
_BYTES = Encoding.find("iso-8859-1")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>doc|seg)\b(?P<attributes>[^<>]*)>", re.IGNORECASE)
_ENTITY = re.compile(r"&(quot|amp|lt|gt|apos);")
_CHARACTERS = {"quot": '"', "amp": "&", "lt": "<", "gt": ">", "apos": "'"}


class SegmentFile(NamedTuple):
    """A test set, and whose translation is taken of several."""

    path: Path
    whose: str | None

    @classmethod
    def named(cls, name: Path) -> SegmentFile | None:
        """Return what a name such as test.sgm or test.xml:A means; None if it is no test set's."""
        if _SGML.fullmatch(name.name):
            return cls(name, None)
        xml = _XML.fullmatch(name.name)
        return cls(name.with_name(xml["file"]), xml["whose"]) if xml else None

    @property
    def has_all_sides(self) -> bool:
        """Whether the file may hold sources and their translations."""
        if _SGML.fullmatch(self.path.name):
            return False
        head = next(read_chunks(self.path, _BYTES, any_bytes=True), b"")
        start = _FIRST_TAG.match(head)
        return not (start and _SET.match(head, start.end()))

    def read(self, encoding: Encoding, use: str) -> Segments:
        """Read one side.

        Args:
            encoding: of SGML.
            use: what is taken of several texts: source, reference or hypothesis.

        Raises:
            DataError: if it is not a test set, or the choice is not clear.
        """
        if self.has_all_sides:
            return read_side(self.path, use, self.whose)
        remedy = "save it as UTF-8, or pass --encoding"
        lines = decode_lines(
            read_lines(self.path, encoding), encoding, name=str(self.path), remedy=remedy
        )
        return read_sgml(str(self.path), "\n".join(lines))


def check_segments(texts: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Raise DataError if test sets, by name, differ in their segments or the order of these."""
    for (one, of_one), (other, of_other) in pairwise(texts):
        pairs = zip(of_one, of_other, strict=False)  # others compare the lengths
        for number, (segment, other_segment) in enumerate(pairs, start=1):
            if segment != other_segment:
                raise DataError(
                    f"segment {number:,} is {segment} in {one}, but {other_segment} in {other}; "
                    "bring both into the same order"
                )


def read_sgml(name: str, content: str) -> Segments:
    """Read the text between <seg> and </seg>, with single spaces and without entities."""
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
                    f"{name}: line {_line_of(opened)}: segment {segment} appears twice; "
                    "give each translation a file of its own"
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
        raise DataError(f"{name} holds no <seg>; WMT's SGML was expected")
    return Segments(lines, tuple(segments))


def _line_of(tag: re.Match[str]) -> str:
    return f"{tag.string.count(chr(10), 0, tag.start()) + 1:,}"


def _attribute(name: str, attributes: str) -> str | None:
    match = re.search(rf"""\b{name}\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))""", attributes, re.I)
    return next((value for value in match.groups() if value is not None), None) if match else None
