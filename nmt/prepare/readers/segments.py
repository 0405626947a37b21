"""Test sets in WMT's SGML or XML, and those of IWSLT: a pair is a segment, not a line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.markup.segment_files import SegmentFile, check_segments
from nmt.prepare.readers.line_files import TextInMemory
from nmt.prepare.readers.text_names import two_files

_USES = ("source", "reference")


def find_segments(name: str, encoding: Encoding, copies: Mapping[str, Path]) -> TextInMemory | None:
    """Read the files of a name such as src.sgm,ref.sgm or test.xml:A; None if it has others.

    DataError if they are damaged, or differ in their segments. UsageError if a side is missing, or
    is no test set.
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
    files = tuple(dict.fromkeys(file.path for file in found if file is not None))
    return TextInMemory.of(names, [side.lines for side in sides], files=files, unit="segment")
