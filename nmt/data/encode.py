"""The last pass over the text: token ids into shards, with their records for `dataset.json`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt import console
from nmt.data.cleaning import Cleaner
from nmt.data.corpus import Encoding, ParallelText
from nmt.data.manifest import CorpusRecord, FileRecord, LengthRecord, ShardRecord, SplitRecord
from nmt.data.scan import ScannedText, TextBatch, read_kept
from nmt.data.shards import Shard, ShardBuilder, token_bytes_for
from nmt.data.sources import record_file
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError
from nmt.files import atomic_writer


@dataclass(frozen=True)
class Encoder:
    """What it takes to encode any split."""

    folder: Path
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    encoding: Encoding
    cleaner: Cleaner
    records: Mapping[ParallelText, tuple[FileRecord, FileRecord]]
    threads: int

    def encode_train(self, texts: Sequence[ScannedText], *, shard_pairs: int) -> SplitRecord:
        """Write the training shards; the rules on tokens reject what they must."""
        writer = self._writer("train", shard_pairs)
        total = sum(text.kept for text in texts)
        with console.progress("Encoding train", total=total, unit="pairs") as bar:
            for text in texts:
                for batch in read_kept(text, self.encoding):
                    self._encode_train_batch(text, batch, writer)
                    bar.update(len(batch.numbers))
        return writer.finish([self._record(text) for text in texts], ())

    def _encode_train_batch(self, text: ScannedText, batch: TextBatch, writer: _Writer) -> None:
        src_ids, tgt_ids = self._encode(batch)
        for at, (src, tgt) in enumerate(zip(src_ids, tgt_ids, strict=True)):
            rule = self.cleaner.judge_lengths(len(src), len(tgt))
            if rule is None:
                writer.add(src, tgt)
            else:
                line = batch.numbers[at]
                text.reject(rule, line=line, src=batch.src[at], tgt=batch.tgt[at])

    def encode_held_out(self, name: str, text: ScannedText, langs: Sequence[str]) -> SplitRecord:
        """Write valid or a test set, and its raw text beside it; every line is kept."""
        writer = self._writer(name, text.lines)
        paths = [self.folder / f"{name}.{lang}" for lang in langs]
        with contextlib.ExitStack() as stack:
            src_file, tgt_file = (stack.enter_context(atomic_writer(path)) for path in paths)
            for batch in read_kept(text, self.encoding):
                for at, (src, tgt) in enumerate(zip(*self._encode(batch), strict=True)):
                    if not src or not tgt:
                        path = text.text.src if not src else text.text.tgt
                        raise DataError(
                            f"{path} line {batch.numbers[at]:,} has no tokens; every line of valid "
                            "and test is kept, so take the pair out of both files"
                        )
                    writer.add(src, tgt)
                src_file.writelines(f"{line}\n".encode() for line in batch.src)
                tgt_file.writelines(f"{line}\n".encode() for line in batch.tgt)
        return writer.finish([self._record(text)], [record_file(path) for path in paths])

    def _writer(self, name: str, shard_pairs: int) -> _Writer:
        largest = max(len(self.src_vocabulary), len(self.tgt_vocabulary))
        return _Writer(self.folder, name, shard_pairs, token_bytes_for(largest))

    def _encode(self, batch: TextBatch) -> tuple[list[list[int]], list[list[int]]]:
        return (
            self.src_vocabulary.encode(batch.src, threads=self.threads),
            self.tgt_vocabulary.encode(batch.tgt, threads=self.threads),
        )

    def _record(self, text: ScannedText) -> CorpusRecord:
        src, tgt = self.records[text.text]
        return CorpusRecord(
            prefix=text.text.prefix,
            src=src,
            tgt=tgt,
            lines=text.lines,
            kept=text.kept,
            rejected=text.rejects.counts,
        )


class _Writer:
    """Cuts the pairs of a split into shards, and measures them."""

    def __init__(self, folder: Path, name: str, shard_pairs: int, token_bytes: int) -> None:
        self._folder = folder
        self._name = name
        self._shard_pairs = shard_pairs
        self._token_bytes = token_bytes
        self._shards: list[ShardRecord] = []
        self._src_lengths, self._tgt_lengths = _LengthCounts(), _LengthCounts()
        self._builder = ShardBuilder(token_bytes=token_bytes)

    def add(self, src: list[int], tgt: list[int]) -> None:
        builder = self._builder
        if len(builder) == self._shard_pairs or not builder.has_room_for(len(src), len(tgt)):
            self._flush()
        self._builder.add(src, tgt)

    def finish(self, corpora: Sequence[CorpusRecord], text: Sequence[FileRecord]) -> SplitRecord:
        """Write the last shard and return the record of the split."""
        if len(self._builder):
            self._flush()
        return SplitRecord(
            name=self._name,
            pairs=sum(shard.pairs for shard in self._shards),
            src=self._src_lengths.record(),
            tgt=self._tgt_lengths.record(),
            corpora=tuple(corpora),
            shards=tuple(self._shards),
            text=tuple(text),
        )

    def _flush(self) -> None:
        numbered = self._name == "train" or self._shards
        number = f"-{len(self._shards):05d}" if numbered else ""
        path = self._folder / f"{self._name}{number}.bin"
        self._builder.write(path)
        self._builder = ShardBuilder(token_bytes=self._token_bytes)
        shard = Shard.open(path)
        self._src_lengths.add(shard.src_lengths)
        self._tgt_lengths.add(shard.tgt_lengths)
        file = record_file(path)
        self._shards.append(
            ShardRecord(
                name=file.name,
                size=file.size,
                sha256=file.sha256,
                pairs=len(shard),
                src_tokens=shard.src_tokens,
                tgt_tokens=shard.tgt_tokens,
            )
        )


class _LengthCounts:
    """How many sides have how many tokens."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(1, np.int64)

    def add(self, lengths: npt.NDArray[np.int32]) -> None:
        counts = np.bincount(lengths, minlength=len(self._counts)).astype(np.int64)
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def record(self) -> LengthRecord:
        pairs = int(self._counts.sum())
        tokens = int(self._counts @ np.arange(len(self._counts)))
        # Half of the sides have at most the median's tokens.
        median = int(np.searchsorted(self._counts.cumsum(), (pairs + 1) // 2))
        return LengthRecord(
            tokens=tokens,
            mean=round(tokens / pairs, 3) if pairs else 0.0,
            median=median,
            longest=int(self._counts.nonzero()[0].max(initial=0)),
        )
