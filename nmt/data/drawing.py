"""A validation set drawn from the training text (`--valid-lines`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.data.blocks import Rows
from nmt.data.cleaning import KEPT, Cleaner
from nmt.data.corpus import ParallelText
from nmt.data.decoding import BlockDecoder
from nmt.data.manifest import FileRecord
from nmt.data.sampling import SampleCleaner, sample_blocks
from nmt.data.sources import DrawnLines, FileSurvey, SourceText
from nmt.data.workers import map_in_order
from nmt.errors import DataError

_OTHER_DRAW = 1 << 32  # added to the seed: the vocabulary is learnt from another sample


@dataclass(frozen=True)
class DrawnPairs:
    """Pairs of the training text that become valid."""

    source: SourceText
    """Their text."""
    numbers: tuple[Rows, ...]
    """Of each training text, the lines that were drawn (from 1)."""


def draw_pairs(
    texts: Sequence[SourceText],
    decode: BlockDecoder,
    cleaner: Cleaner,
    *,
    size: int,
    seed: int,
    workers: int,
) -> DrawnPairs:
    """Draw `size` different pairs that the rules let through.

    Each line is as likely as any other, so a pair that stands there twice is likelier.

    Raises:
        DataError: there are not so many.
    """
    total = sum(text.lines for text in texts)
    candidates = 2 * size
    while True:
        found: dict[tuple[str, str], tuple[int, int]] = {}  # pair -> text and line
        blocks = sample_blocks(texts, decode.encoding, size=candidates, seed=seed + _OTHER_DRAW)
        clean = SampleCleaner(decode, cleaner, moses=(None, None))
        for block, sample in map_in_order(clean, blocks, workers=workers):
            rows = np.flatnonzero(sample.verdicts == KEPT).tolist()
            for row, pair in zip(rows, sample.pairs, strict=True):
                found.setdefault(pair, (block.corpus, block.line_number(row)))
        if len(found) >= size:
            break
        if candidates >= total:
            raise DataError(
                f"--valid-lines {size}: of {total:,} training pairs only {len(found):,} are "
                "different and pass the rules; ask for fewer"
            )
        candidates *= 4
    pairs = list(found.items())
    chosen = np.random.default_rng((seed, size)).choice(len(pairs), size, replace=False)
    drawn = [pairs[at] for at in np.sort(chosen).tolist()]
    src, tgt = ([pair[side] for pair, _ in drawn] for side in (0, 1))
    tags = tuple(texts[corpus].tag for _, (corpus, _) in drawn)
    numbers = [
        np.array([line for _, (corpus, line) in drawn if corpus == number], np.int64)
        for number in range(len(texts))
    ]
    return DrawnPairs(_as_source(src, tgt, tags, decode), tuple(numbers))


def _as_source(
    src: Sequence[str], tgt: Sequence[str], tags: tuple[str, ...], decode: BlockDecoder
) -> SourceText:
    encoding = decode.encoding.line_codec
    names = [f"valid.{lang}" for lang in decode.langs]
    raw = [b"".join(f"{line}\n".encode(encoding) for line in lines) for lines in (src, tgt)]
    surveys = [
        FileSurvey(
            record=FileRecord(name, len(content), hashlib.sha256(content).hexdigest()),
            lines=len(src),
            text_bytes=len(content),
            bad_lines=0,
            first_bad=0,
            looks_utf8=False,
            stamp=(0, 0),
        )
        for name, content in zip(names, raw, strict=True)
    ]
    text = ParallelText("drawn from train", Path(names[0]), Path(names[1]))
    return SourceText(text, surveys[0], surveys[1], drawn=DrawnLines(raw[0], raw[1], tags))
