"""The training shards: blocks go out to workers, come back in order, and are written.

Only what must be done in the order of the text is done here: duplicates are found, rejects are
counted, shards are filled. A shard ends with the first block that makes it full, so that a run that
was killed can go on with the block behind it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from nmt import console
from nmt.data.blocks import Block
from nmt.data.cleaning import CODES, KEPT
from nmt.data.duplicates import Hashes, SeenHashes
from nmt.data.encode import BlockEncoder, EncodedBlock
from nmt.data.faults import told_shift
from nmt.data.manifest import CorpusRecord, SplitRecord
from nmt.data.progress import Progress, read_hashes, write_hashes, write_progress
from nmt.data.sources import SourceText
from nmt.data.split_writer import SplitWriter
from nmt.data.workers import map_in_order


class TrainSplit:
    """Makes the training shards of a folder, from where `progress` says that it has come to."""

    def __init__(
        self,
        folder: Path,
        texts: Sequence[SourceText],
        encoder: BlockEncoder,
        progress: Progress,
        *,
        shard_pairs: int,
    ) -> None:
        self.rejects = progress.rejects
        self._folder = folder
        self._texts = texts
        self._encoder = encoder
        self._progress = progress
        self._shard_pairs = shard_pairs
        self._writer = SplitWriter(
            folder, "train", token_bytes=encoder.token_bytes, shards=progress.shards
        )
        self._finds_duplicates = encoder.cleaner.applies("duplicate")
        self._seen = SeenHashes(self._lines if self._finds_duplicates else 0)
        self._new_hashes: list[Hashes] = []  # of the pairs that are in no shard yet
        for file in progress.hashes:
            self._seen.add(read_hashes(folder, file))
        self._seconds = np.zeros(2)
        self._shifted: set[int] = set()  # texts that have been warned of

    @property
    def _lines(self) -> int:
        return sum(text.lines for text in self._texts)

    def write(self, *, workers: int) -> None:
        """Write all shards that are not there yet."""
        done = sum(corpus.lines for corpus in self.rejects)
        corpus = self._progress.corpus
        began = time.process_time()
        with console.progress(
            "Encoding train", total=self._lines, unit="pairs", initial=done
        ) as bar:
            for block, result in map_in_order(self._encoder, self._blocks(), workers=workers):
                if block.corpus != corpus and self._writer.waiting:
                    self._flush(corpus, next_corpus=corpus + 1, next_line=1)
                corpus = block.corpus
                self._add(block, result)
                bar.update(block.lines)
            if self._writer.waiting:
                self._flush(corpus, next_corpus=corpus + 1, next_line=1)
        judging, encoding = self._seconds
        reading = time.process_time() - began - (judging + encoding if workers == 1 else 0)
        console.notice(
            f"CPU seconds: {judging:.1f} cleaning, {encoding:.1f} SentencePiece, {reading:.1f} "
            "reading, comparing and writing"
        )

    def record(self) -> SplitRecord:
        """Return the record of the split."""
        corpora = [
            CorpusRecord(
                prefix=text.text.prefix,
                src=text.src.record,
                tgt=text.tgt.record,
                lines=rejects.lines,
                kept=rejects.kept,
                rejected=rejects.counts,
                weight=text.weight,
                tag=text.tag,
            )
            for text, rejects in zip(self._texts, self.rejects, strict=True)
        ]
        return self._writer.record(corpora, ())

    def _blocks(self) -> Iterator[Block]:
        encoding = self._encoder.decode.encoding
        for corpus, text in enumerate(self._texts):
            if corpus >= self._progress.corpus:
                start = self._progress.line if corpus == self._progress.corpus else 1
                yield from text.read(encoding, corpus=corpus, start=start)

    def _add(self, block: Block, result: EncodedBlock) -> None:
        if not self._writer.has_room_for(result.src, result.tgt):
            self._flush(block.corpus, next_corpus=block.corpus, next_line=block.number)
        self._warn_of_shift(block, result.shift)
        rows = np.flatnonzero(result.verdicts == KEPT)
        src, tgt = result.src, result.tgt
        if self._finds_duplicates:
            is_new = self._seen.add(result.hashes)
            result.verdicts[rows[~is_new]] = CODES["duplicate"]
            self._new_hashes.append(result.hashes[is_new])
            rows, src, tgt = rows[is_new], src.select(is_new), tgt.select(is_new)
        self.rejects[block.corpus].add(block, result.verdicts, self._encoder.decode.encoding)
        self._writer.add(src, tgt, block.number + rows)
        self._seconds += result.seconds
        if self._writer.waiting >= self._shard_pairs:
            self._flush(
                block.corpus, next_corpus=block.corpus, next_line=block.number + block.lines
            )

    def _warn_of_shift(self, block: Block, shift: int) -> None:
        if not shift or block.corpus in self._shifted:
            return
        self._shifted.add(block.corpus)
        if block.number > 1:  # the first lines were looked at before the vocabulary was learnt
            text = self._texts[block.corpus].text
            console.warning(
                f"{text.src} and {text.tgt}, lines {block.number:,} to "
                f"{block.number + block.lines - 1:,}: {told_shift(shift)}"
            )

    def _flush(self, corpus: int, *, next_corpus: int, next_line: int) -> None:
        hashes = np.concatenate([np.zeros(0, np.uint64), *self._new_hashes])
        file = write_hashes(self._folder, len(self._writer.shards), hashes)
        self._writer.flush(corpus=corpus)
        self._new_hashes.clear()
        self._progress = replace(
            self._progress,
            shards=tuple(self._writer.shards),
            hashes=(*self._progress.hashes, file),
            corpus=next_corpus,
            line=next_line,
        )
        write_progress(self._folder, self._progress)
