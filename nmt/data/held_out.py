"""valid and the test sets: checked, not cleaned; every line is kept or refused by its number."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.data.blocks import Block
from nmt.data.decoding import BlockDecoder, Mask, TextSide
from nmt.data.encode import BlockEncoder, tagged
from nmt.data.manifest import CorpusRecord
from nmt.data.overlap import OverlapKeys
from nmt.data.sources import SourceText
from nmt.data.split_writer import SplitWriter
from nmt.errors import DataError
from nmt.files import atomic_writer


@dataclass(frozen=True)
class HeldOutText:
    """A text of which every line can be used."""

    source: SourceText
    keys: tuple[OverlapKeys, OverlapKeys]
    """The sources and the targets that rule out the same line in train."""

    @classmethod
    def check(cls, source: SourceText, decode: BlockDecoder) -> HeldOutText:
        """Read the text; DataError names the first line that cannot be used."""
        keys: tuple[list[OverlapKeys], list[OverlapKeys]] = ([], [])
        for block, src, tgt in _read(source, decode):
            for path, side, found in zip(
                (source.text.src, source.text.tgt), (src, tgt), keys, strict=True
            ):
                name = decode.encoding.name
                _refuse(path, block, side.is_bad, f"is not valid {name}", "mend it")
                _refuse(path, block, side.visible == 0, "is blank", "take the pair out")
                found.append(OverlapKeys.of(side))
        if not source.lines:
            raise DataError(f"{source.text.src} and {source.text.tgt} are empty")
        return cls(source, (OverlapKeys.join(keys[0]), OverlapKeys.join(keys[1])))

    def record(self) -> CorpusRecord:
        """Return the record of the text, of which nothing is rejected."""
        source = self.source
        return CorpusRecord(
            prefix=source.text.prefix,
            src=source.src.record,
            tgt=source.tgt.record,
            lines=source.lines,
            kept=source.lines,
            rejected={},
            weight=source.weight,
            tag=source.tag,
        )

    def encode(self, encoder: BlockEncoder, writer: SplitWriter, paths: Sequence[Path]) -> None:
        """Write the shard of the text, and its raw lines to `paths` (source, target)."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(atomic_writer(path)) for path in paths]
            for block, src, tgt in _read(self.source, encoder.decode):
                src_lines = list(map(tagged, src.lines, self.source.tags(block)))
                rows = encoder.encode(src_lines, tgt.lines)
                for path, side in zip(
                    (self.source.text.src, self.source.text.tgt), rows, strict=True
                ):
                    _refuse(path, block, side.lengths == 0, "has no tokens", "take the pair out")
                writer.add(*rows, np.arange(block.number, block.number + block.lines))
                for file, lines in zip(files, (src_lines, tgt.lines), strict=True):
                    file.write("".join(f"{line}\n" for line in lines).encode())


def _read(source: SourceText, decode: BlockDecoder) -> Iterator[tuple[Block, TextSide, TextSide]]:
    for block in source.read(decode.encoding):
        yield block, *decode(block)


def _refuse(path: Path, block: Block, bad: Mask, what: str, advice: str) -> None:
    if bad.any():
        number = block.number + int(np.argmax(bad))
        raise DataError(
            f"{path} line {number:,} {what}; every line of valid and test is kept, so {advice}"
        )
