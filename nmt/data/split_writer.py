"""The shards of a split, written one after the other, with their records for `dataset.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.data.folder import PairDataset
from nmt.data.manifest import CorpusRecord, FileRecord, LengthRecord, ShardRecord, SplitRecord
from nmt.data.shards import Shard, ShardBuilder, TokenRows
from nmt.data.sources import record_file


class SplitWriter:
    """Collects pairs and writes a shard when it is told to."""

    def __init__(
        self, folder: Path, name: str, *, token_bytes: int, shards: Sequence[ShardRecord] = ()
    ) -> None:
        self.shards = list(shards)
        """The records of what has been written; at first, of what an earlier run has written."""
        self._folder = folder
        self._name = name
        self._token_bytes = token_bytes
        self._builder = ShardBuilder(token_bytes=token_bytes)

    @property
    def waiting(self) -> int:
        """Pairs that are in no shard yet."""
        return len(self._builder)

    def has_room_for(self, src: TokenRows, tgt: TokenRows) -> bool:
        """Whether these pairs fit into the shard that is being collected."""
        return self._builder.has_room_for(src, tgt)

    def add(self, src: TokenRows, tgt: TokenRows, lines: npt.NDArray[np.int64]) -> None:
        """Append pairs, with the number of the line that each one stood in."""
        self._builder.extend(src, tgt, lines)

    def flush(self, *, corpus: int = 0) -> None:
        """Write what is waiting, all of it pairs of one corpus, as a shard."""
        number = f"-{len(self.shards):05d}" if self._name == "train" else ""
        path = self._folder / f"{self._name}{number}.bin"
        self._builder.write(path, corpus=corpus)
        self._builder = ShardBuilder(token_bytes=self._token_bytes)
        shard = Shard.open(path)
        file = record_file(path)
        self.shards.append(
            ShardRecord(
                name=file.name,
                size=file.size,
                sha256=file.sha256,
                corpus=corpus,
                pairs=len(shard),
                src_tokens=shard.src_tokens,
                tgt_tokens=shard.tgt_tokens,
            )
        )

    def record(self, corpora: Sequence[CorpusRecord], text: Sequence[FileRecord]) -> SplitRecord:
        """Return the record of the split, all of whose shards have been written."""
        pairs = PairDataset([Shard.open(self._folder / shard.name) for shard in self.shards])
        src_counts, tgt_counts = pairs.length_counts()
        return SplitRecord(
            name=self._name,
            pairs=len(pairs),
            src=_statistics(src_counts),
            tgt=_statistics(tgt_counts),
            corpora=tuple(corpora),
            shards=tuple(self.shards),
            text=tuple(text),
        )


def _statistics(counts: npt.NDArray[np.int64]) -> LengthRecord:
    """Return what is said of the lengths; counts: how many sides have 0, 1, 2 ... tokens."""
    pairs = int(counts.sum())
    tokens = int(counts @ np.arange(len(counts)))
    return LengthRecord(
        tokens=tokens,
        mean=round(tokens / pairs, 3) if pairs else 0.0,
        # Half of the sides have at most the median's tokens.
        median=int(np.searchsorted(counts.cumsum(), (pairs + 1) // 2)),
        longest=int(counts.nonzero()[0].max(initial=0)),
    )
