"""Test sets in WMT's SGML or XML, and those of IWSLT: a pair is a segment, not a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding
from nmt.data.line_blocks import Advance
from nmt.errors import DataError, UsageError
from nmt.markup.segment_files import SegmentFile, check_segments
from nmt.prepare.readers.line_files import LineFiles
from nmt.prepare.readers.reader import Survey, record_file
from nmt.prepare.readers.text_names import two_files

_UTF8 = Encoding.find("utf-8")
_USES = ("source", "reference")


@dataclass(frozen=True)
class SegmentFiles(LineFiles):
    """A file for each side, or one with both. They are small, and are read as a whole."""

    names: tuple[str, str]
    files: tuple[Path, ...]
    texts: tuple[bytes, bytes]  # segments, one on each line
    encoding = _UTF8
    unit = "segment"

    @classmethod
    def find(cls, name: str, encoding: Encoding, copies: Mapping[str, Path]) -> SegmentFiles | None:
        """Read the files of a name such as src.sgm,ref.sgm or test.xml:A; None if it has others.

        DataError if they are damaged, or differ in their segments. UsageError if a side is missing,
        or is no test set.
        """
        names = two_files(name) or (name, name)
        found = [SegmentFile.named(copies.get(one, Path(one))) for one in names]
        if not any(found):
            return None
        sides = []
        for one, file, use in zip(names, found, _USES, strict=True):
            if file is None:
                raise UsageError(f"{name}: {one} is lines of text; give it as SGML or XML, too")
            if not file.path.is_file():
                raise DataError(f"{file.path}: no such file")
            if names[0] == names[1] and not file.has_all_sides:
                raise UsageError(f"{name}: has one side only; give two files as SOURCE,TARGET")
            if use == "source":  # of which there is only one
                file = file._replace(whose=None)
            sides.append(file.read(encoding, use))
        check_segments((one, side.segments) for one, side in zip(names, sides, strict=True))
        if sides[-1].left_out:
            console.notice(f"{name}: {sides[-1].described_rest}")
        src, tgt = ("".join(f"{line}\n" for line in side.lines).encode() for side in sides)
        files = tuple(dict.fromkeys(file.path for file in found if file is not None))
        return cls(names, files, (src, tgt))

    @property
    def sides(self) -> tuple[str, str]:
        return self.names

    def chunks(self, side: int) -> Iterator[bytes]:
        yield self.texts[side]

    def _survey(self, side: int, advance: Advance) -> Survey:
        record = record_file(self.files[min(side, len(self.files) - 1)])
        advance(record.size // (3 - len(self.files)))
        return Survey(record, *self._survey_text(side, self.chunks(side)))
