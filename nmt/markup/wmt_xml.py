"""WMT's XML test sets since 2021: source, references and systems' translations in one file.

```
<dataset id="newstest2021">
  <doc id="bbc.1" origlang="en">
    <src lang="en"><p><seg id="1">Good morning.</seg></p></src>
    <ref lang="de" translator="A"><p><seg id="1">Guten Morgen.</seg></p></ref>
    <hyp lang="de" system="Online-B"><p><seg id="1">Guten Tag.</seg></p></hyp>
  </doc>
</dataset>
```

Lines are those of sacreBLEU: in the order of documents and segment numbers, and without test
suites. If the file has references, segments without any are left out. A segment that only the
chosen translator lacks is an empty line.

The file must not declare entities: those would let a file grow without bound, or read others.

Source: https://github.com/wmt-conference/wmt-format-tools, schema/wmt-schema.rnc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError

_BYTES = Encoding.find("iso-8859-1")  # leaves bytes as they are: expat decodes them
_NUMBER = re.compile("[0-9]{1,9}")
_NAMED = {"src": "translator", "ref": "translator", "hyp": "system"}
"""Elements with text -> the attribute that says whose it is."""

KINDS = {"source": ("src",), "reference": ("ref", "hyp"), "hypothesis": ("hyp", "ref")}
"""What a text is for -> the elements that it may be, the usual one first."""


class Version(NamedTuple):
    """A side of the test set."""

    kind: str
    """src, ref or hyp."""
    name: str
    """Of the translator or system; empty if the file does not say."""


@dataclass
class _Document:
    name: str
    is_test_suite: bool
    texts: dict[Version, dict[int, str]] = field(default_factory=dict)

    def segments(self, *kinds: str) -> set[int]:
        """Return the numbers of segments that have text, or for sources a place."""
        return {
            number
            for version, lines in self.texts.items()
            if version.kind in kinds
            for number, text in lines.items()
            if text or version.kind == "src"
        }


@dataclass(frozen=True)
class Segments:
    """The lines of a test set, or of one version in it."""

    lines: list[str]
    segments: tuple[str, ...]
    """The document and number of each line."""
    lang: str = ""
    """If the file says it."""
    left_out: int = 0
    """Segments of test suites, and those without any reference."""

    @property
    def described_rest(self) -> str:
        """What to tell of the segments that are left out."""
        return f"{self.left_out:,} segments of test suites or without reference left out"


def read_side(path: Path, use: str, chosen: str | None) -> Segments:
    """Read one side of a file.

    Args:
        path: plain or compressed.
        use: a key of `KINDS`.
        chosen: a translator or system; None takes the only one.

    Raises:
        DataError: if it is not such a file, or the choice is not clear.
    """
    parser = _WmtParser(path)
    parser.read(read_chunks(path, _BYTES, any_bytes=True))
    version = _choose(list(parser.langs), path, use, chosen)
    has_references = any(kind == "ref" for kind, _ in parser.langs)
    lines, segments, left_out = [], [], 0
    for document in parser.documents:
        in_all = document.segments("src") or document.segments(version.kind)
        kept = in_all & document.segments("ref") if has_references else in_all
        kept = set() if document.is_test_suite else kept
        left_out += len(in_all) - len(kept)
        texts = document.texts.get(version, {})
        lines += [texts.get(number, "") for number in sorted(kept)]
        segments += [f"{document.name}:{number}" for number in sorted(kept)]
    if not lines:
        raise DataError(f"{path} holds no segments to score")
    return Segments(lines, tuple(segments), parser.langs[version], left_out)


def _choose(versions: Sequence[Version], path: Path, use: str, chosen: str | None) -> Version:
    versions_of_use = [
        version for kind in KINDS[use] for version in versions if version.kind == kind
    ]
    if chosen is None:
        suited = [version for version in versions_of_use if version.kind == KINDS[use][0]]
    else:
        suited = [version for version in versions_of_use if version.name == chosen][:1]
    if len(suited) == 1:
        return suited[0]
    problem = f"{'more than one' if suited else 'no'} {use}{f' by {chosen}' if chosen else ''}"
    names = list(dict.fromkeys(version.name for version in versions_of_use if version.name))
    if not names:
        raise DataError(f"{path} has {problem}")
    raise DataError(
        f"{path} has {problem}; say whose text to take, such as {path}:{names[0]}, of "
        f"{', '.join(names)}"
    )


class _WmtParser:
    """Takes the bytes of a file, and collects its documents."""

    def __init__(self, path: Path) -> None:
        self.documents: list[_Document] = []
        self.langs: dict[Version, str] = {}
        self._path = path
        self._is_dataset = False
        self._version: Version | None = None
        self._segment: int | None = None
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse_entity
        self._parser.SkippedEntityHandler = self._refuse_entity

    def read(self, chunks: Iterable[bytes]) -> None:
        try:
            for chunk in chunks:
                self._parser.Parse(chunk, False)
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, "damaged")
            raise DataError(
                f"{self._path} line {error.lineno:,}: not valid XML ({reason}); download it again"
            ) from None
        except (LookupError, ValueError) as error:  # it names an encoding that Python cannot read
            raise DataError(f"{self._path}: {error}; convert it to UTF-8") from None

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        if not self._is_dataset:
            if element != "dataset":
                raise DataError(
                    f"{self._path}: not WMT's XML: its first element is <{element}>, expected "
                    "<dataset> or <mteval>"
                )
            self._is_dataset = True
        if element == "doc":
            self.documents.append(_Document(attributes.get("id", ""), "testsuite" in attributes))
        elif element in _NAMED and self.documents:
            # Whoever translated the source, there is only one.
            name = "" if element == "src" else attributes.get(_NAMED[element], "")
            self._version = Version(element, name)
            self.langs.setdefault(self._version, attributes.get("lang", ""))
            if self._version in self.documents[-1].texts:
                raise self._error(f"a second <{element}> of one document by {name or 'nobody'}")
            self.documents[-1].texts[self._version] = {}
        elif element == "seg" and self._version is not None:
            number = attributes.get("id", "")
            if not _NUMBER.fullmatch(number):
                raise self._error(f"<seg id={number!r}>; expected a number")
            self._segment, self._text = int(number), []

    def _characters(self, text: str) -> None:
        if self._segment is not None:
            self._text.append(text)

    def _end(self, element: str) -> None:
        if element == "seg" and self._segment is not None and self._version is not None:
            lines = self.documents[-1].texts[self._version]
            if self._segment in lines:
                raise self._error(f"segment {self._segment} appears twice")
            lines[self._segment] = " ".join("".join(self._text).split())
            self._segment = None
        elif element in _NAMED:
            self._version = None

    def _error(self, problem: str) -> DataError:
        return DataError(f"{self._path} line {self._parser.CurrentLineNumber:,}: {problem}")

    def _refuse_entity(self, entity: str, *_: object) -> None:
        raise DataError(
            f"{self._path}: uses the entity &{entity};, which test sets do not need; replace it by "
            "its text"
        )
