"""Test sets in WMT's SGML or XML, also those of IWSLT: their segments are lines of text.

SGML is `<srcset>`, `<refset>` or `<tstset>` with `<seg id="1">` in `<doc docid="a">`. IWSLT wraps
it in `<mteval>` and names it `.xml`. WMT's XML since 2021 has all sides in one file, each `<seg>`
in `<src lang="en">`, `<ref lang="de" translator="A">` or `<hyp lang="de" system="Online-B">`.

Its lines are those of sacreBLEU: in the order of documents and segment numbers, and without test
suites. If the file has references, segments without any are left out. A segment that only the
chosen translator lacks is an empty line.

Source: https://github.com/wmt-conference/wmt-format-tools, schema/wmt-schema.rnc.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder

from nmt.data.corpus import Encoding, decode_lines, read_chunks, read_lines
from nmt.errors import DataError
from nmt.markup.xml_files import BYTES, read_xml, xml_parser

_ENDING = r"(?:\.(?:gz|xz|bz2|zst))?"
_SGML = re.compile(rf".+\.sgml?{_ENDING}", re.IGNORECASE)
_XML = re.compile(rf"(?P<file>.+\.xml{_ENDING})(?::(?P<whose>[^/]+))?", re.IGNORECASE)
_SET = re.compile(rb"<(?:mteval|srcset|refset|tstset)[\s>]", re.IGNORECASE)
_FIRST_TAG = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?>(?:<[?!][^<>]*+>\s*+)*)(?=<\w)")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>doc|seg)\b(?P<attributes>[^<>]*)>", re.IGNORECASE)
_ENTITY = re.compile(r"&(quot|amp|lt|gt|apos);")
_CHARACTERS = {"quot": '"', "amp": "&", "lt": "<", "gt": ">", "apos": "'"}
_NUMBER = re.compile("[0-9]{1,9}")
_NAMED = {"src": "translator", "ref": "translator", "hyp": "system"}
"""Elements with text -> the attribute that says whose it is."""

_Version = tuple[str, str]
"""A side: src, ref or hyp, and the name of its translator or system; "": the file does not say."""

KINDS = {"source": ("src",), "reference": ("ref", "hyp"), "hypothesis": ("hyp", "ref")}
"""What a text is for -> the elements that it may be, the usual one first."""


class Segments(NamedTuple):
    """The lines of a test set, or of one version in it."""

    lines: list[str]
    segments: tuple[str, ...]  # the document and number of each line
    lang: str = ""  # if the file says it
    left_out: int = 0  # segments of test suites, and those without any reference

    @property
    def described_rest(self) -> str:
        """What to tell of the segments that are left out."""
        return f"{self.left_out:,} segments of test suites or without reference left out"


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
        head = next(read_chunks(self.path, BYTES, any_bytes=True), b"")
        start = _FIRST_TAG.match(head)
        return not (start and _SET.match(head, start.end()))

    def read(self, encoding: Encoding, use: str) -> Segments:
        """Read one side.

        encoding: of SGML; use: what is taken of several texts: source, reference or hypothesis.
        DataError if it is not a test set, or the choice is not clear.
        """
        if self.has_all_sides:
            return read_side(self.path, use, self.whose)
        remedy = "save it as UTF-8, or pass --encoding"
        raw = read_lines(self.path, encoding)
        lines = decode_lines(raw, encoding, name=str(self.path), remedy=remedy)
        return read_sgml(str(self.path), "\n".join(lines))


def check_segments(texts: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Raise DataError if test sets, by name, differ in their segments or the order of these."""
    for (one, of_one), (other, of_other) in pairwise(texts):
        pairs = zip(of_one, of_other, strict=False)  # others compare the lengths
        for number, (segment, other_segment) in enumerate(pairs, start=1):
            if segment != other_segment:
                raise DataError(
                    f"segment {number:,} is {segment:.60} in {one}, but {other_segment:.60} in "
                    f"{other}; bring both into the same order"
                )


def read_sgml(name: str, content: str) -> Segments:
    """Read the text between <seg> and </seg>, with single spaces and without entities."""
    lines: dict[str, str] = {}  # by segment
    document = ""
    opened: re.Match[str] | None = None
    for tag in _TAG.finditer(content):
        is_segment, ends = tag["name"].lower() == "seg", bool(tag["end"])
        if is_segment and ends and opened is not None:
            segment = f"{document}:{_attribute('id', opened['attributes']) or len(lines) + 1}"
            if segment in lines:
                raise DataError(
                    f"{name}: line {_line_of(opened)}: segment {segment} appears twice; "
                    "give each translation a file of its own"
                )
            text = " ".join(content[opened.end() : tag.start()].split())
            lines[segment] = _ENTITY.sub(lambda entity: _CHARACTERS[entity[1]], text)
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
    return Segments(list(lines.values()), tuple(lines))


def _line_of(tag: re.Match[str]) -> str:
    return f"{tag.string.count(chr(10), 0, tag.start()) + 1:,}"


def _attribute(name: str, attributes: str) -> str | None:
    match = re.search(rf"""\b{name}\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))""", attributes, re.I)
    return next((value for value in match.groups() if value is not None), None) if match else None


def read_side(path: Path, use: str, chosen: str | None) -> Segments:
    """Read one side of a file of WMT's XML.

    use: a key of `KINDS`.
    chosen: a translator or system; None takes the only one.
    DataError if it is not such a file, or the choice is not clear.
    """
    builder = TreeBuilder()
    parser = xml_parser(builder.start, builder.end, builder.data)
    read_xml(path, parser, read_chunks(path, BYTES, any_bytes=True), remedy="download it again")
    root = builder.close()
    if root.tag != "dataset":
        raise DataError(
            f"{path}: not WMT's XML: its first element is <{root.tag}>, expected <dataset> or "
            "<mteval>"
        )
    documents = [(document, _texts_of(path, document)) for document in root.iter("doc")]
    langs: dict[_Version, str] = {}
    for document, _ in documents:
        for version, side in _sides_of(document):
            langs.setdefault(version, side.get("lang", ""))
    version = _choose(list(langs), path, use, chosen)
    has_references = any(kind == "ref" for kind, _ in langs)
    lines, segments, left_out = [], [], 0
    for document, texts in documents:
        with_text: dict[str, set[int]] = defaultdict(set)
        for (kind, _), by_number in texts.items():
            with_text[kind] |= {n for n, text in by_number.items() if text or kind == "src"}
        in_all = with_text["src"] or with_text[version[0]]
        numbers = in_all & with_text["ref"] if has_references else in_all
        numbers = set() if "testsuite" in document.attrib else numbers
        left_out += len(in_all) - len(numbers)
        lines += [texts.get(version, {}).get(number, "") for number in sorted(numbers)]
        segments += [f"{document.get('id', '')}:{number}" for number in sorted(numbers)]
    if not lines:
        raise DataError(f"{path} holds no segments to score")
    return Segments(lines, tuple(segments), langs[version], left_out)


def _choose(versions: Sequence[_Version], path: Path, use: str, chosen: str | None) -> _Version:
    of_use = [version for kind in KINDS[use] for version in versions if version[0] == kind]
    if chosen is None:
        suited = [version for version in of_use if version[0] == KINDS[use][0]]
    else:
        suited = [version for version in of_use if version[1] == chosen][:1]
    if len(suited) == 1:
        return suited[0]
    problem = f"{'more than one' if suited else 'no'} {use}{f' by {chosen}' if chosen else ''}"
    names = list(dict.fromkeys(name for _, name in of_use if name))
    if not names:
        raise DataError(f"{path} has {problem}")
    raise DataError(
        f"{path} has {problem}; say whose text to take, such as {path}:{names[0]}, of "
        f"{', '.join(names)}"
    )


def _sides_of(document: Element) -> Iterator[tuple[_Version, Element]]:
    """Yield the elements of a document that hold a text, and whose that is."""
    for side in document:
        if side.tag in _NAMED:
            # Whoever translated the source, there is only one.
            yield (side.tag, "" if side.tag == "src" else side.get(_NAMED[side.tag], "")), side


def _texts_of(path: Path, document: Element) -> dict[_Version, dict[int, str]]:
    """Return the texts of a document, by the numbers of their segments (DataError)."""
    where = f"{path}: document {document.get('id', '')!r}"
    texts: dict[_Version, dict[int, str]] = {}
    for version, side in _sides_of(document):
        if version in texts:
            raise DataError(f"{where} has a second <{side.tag}> by {version[1] or 'nobody'}")
        lines = texts[version] = {}
        for segment in side.iter("seg"):
            number = segment.get("id", "")
            if not _NUMBER.fullmatch(number) or int(number) in lines:
                raise DataError(
                    f"{where} has <seg id={number!r}> in its <{side.tag}>; expected numbers, each "
                    "once"
                )
            lines[int(number)] = " ".join("".join(segment.itertext()).split())
    return texts
