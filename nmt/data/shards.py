"""Shards: the binary files that hold the token ids of parallel text.

    header          64 bytes, little-endian: see `_HEADER`, then the CRC
    src offsets     uint32, pairs + 1 of them: pair i is src[offsets[i] : offsets[i + 1]]
    tgt offsets     uint32, pairs + 1
    line numbers    uint32, one per pair: its line in the corpus, from 1
    src token ids   uint16 if the vocabulary fits, else uint32; without bos and eos
    tgt token ids   the same

A shard of a side column is the same file with bytes of UTF-8 in place of token ids. `text` has the
raw lines. A column with one value for a pair has them as sources, and targets that are empty.

All pairs of a shard come from one corpus, whose index is in the header. Shards are written once and
opened with mmap, so ranks share their pages and access is random and without copies. The CRC covers
the header, the offsets and the line numbers. The SHA-256 in `dataset.json` covers the token ids.
"""

from __future__ import annotations

import mmap
import os
import resource
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError
from nmt.system.files import atomic_writer, open_file

FORMAT_VERSION = 2
# Offsets have 32 bits, which limits the tokens of one side of a shard.
MAX_TOKENS = 2**32 - 1

_MAGIC = b"NMTSHARD"
# magic, format version, bytes per token id, pairs, src tokens, tgt tokens, corpus, reserved
_HEADER = struct.Struct("<8sII QQQ I 16x")
_CRC = struct.Struct("<I")
_BODY_AT = _HEADER.size + _CRC.size
_OFFSET: np.dtype[Any] = np.dtype("<u4")
_LINE: np.dtype[Any] = np.dtype("<u4")
ID_TYPES: dict[int, np.dtype[Any]] = {size: np.dtype(f"<u{size}") for size in (1, 2, 4)}
"""Of token ids by their bytes; 1: of text."""
TEXT_BYTES = 1  # what takes the place of the bytes of a token id in a shard of a side column

Ids = npt.NDArray[np.unsignedinteger[Any]]
Lengths = npt.NDArray[np.int32]

_AGAIN = "run `nmt prepare` again into a new folder"


def token_bytes_for(vocab_size: int) -> int:
    """Return the bytes of a token id in a shard, for this size of vocabulary."""
    return 2 if vocab_size <= 1 << 16 else 4


@dataclass(frozen=True)
class TokenRows:
    ids: Ids  # (tokens,)
    lengths: Lengths  # (rows,)

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], *, token_bytes: int) -> TokenRows:
        lengths = np.fromiter(map(len, rows), np.int32, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), ID_TYPES[token_bytes], int(lengths.sum()))
        return cls(ids, lengths)

    @classmethod
    def from_bytes(cls, rows: Sequence[bytes], *, token_bytes: int) -> TokenRows:
        """Return rows whose ids are bytes already, `token_bytes` each."""
        lengths = np.fromiter(map(len, rows), np.int32, len(rows)) // np.int32(token_bytes)
        return cls(np.frombuffer(b"".join(rows), ID_TYPES[token_bytes]), lengths)

    @classmethod
    def from_text(cls, lines: Sequence[str]) -> TokenRows:
        """Return lines as rows of the bytes of their UTF-8."""
        return cls.from_bytes([line.encode() for line in lines], token_bytes=TEXT_BYTES)

    def text(self) -> list[str]:
        """Return the lines that `from_text` was given."""
        joined, bounds = self.ids.tobytes(), [0, *np.cumsum(self.lengths).tolist()]
        return [joined[start:end].decode() for start, end in pairwise(bounds)]

    def lists(self) -> list[list[int]]:
        """Return the rows as lists: those that `from_lists` was given."""
        ids, bounds = self.ids.tolist(), [0, *np.cumsum(self.lengths).tolist()]
        return [ids[start:end] for start, end in pairwise(bounds)]

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def join(cls, parts: Sequence[TokenRows]) -> TokenRows:
        ids, lengths = [part.ids for part in parts], [part.lengths for part in parts]
        return cls(np.concatenate(ids), np.concatenate(lengths))

    @classmethod
    def gather(cls, ids: Ids, starts: npt.NDArray[np.int64], lengths: Lengths) -> TokenRows:
        """Copy rows out of `ids`, given their starts and lengths."""
        first = np.cumsum(lengths) - lengths  # start of each row in the copy
        places = np.repeat(starts - first, lengths) + np.arange(int(lengths.sum()))
        return cls(ids.take(places), lengths)

    def take(self, rows: npt.NDArray[np.int64]) -> TokenRows:
        starts = np.cumsum(self.lengths) - self.lengths
        return TokenRows.gather(self.ids, starts[rows], self.lengths[rows])

    def replaced(self, places: Sequence[int], rows: Sequence[Sequence[int]]) -> TokenRows:
        """Return these rows with others at some places."""
        # The new rows stand after the old ones, and take the places of theirs.
        order = np.arange(len(self))
        order[places] = len(self) + np.arange(len(rows))
        new = TokenRows.from_lists(rows, token_bytes=self.ids.itemsize)
        return TokenRows.join([self, new]).take(order)

    def select(self, chosen: npt.NDArray[np.bool_]) -> TokenRows:
        """Return the rows for which `chosen` (rows,) is True."""
        if chosen.all():
            return self
        return TokenRows(self.ids[np.repeat(chosen, self.lengths)], self.lengths[chosen])


class ShardBuilder:
    """Collects pairs of token ids in memory and writes them as one shard."""

    def __init__(self, *, token_bytes: int) -> None:
        self._token_bytes = token_bytes
        self._parts: list[tuple[TokenRows, TokenRows, npt.NDArray[np.int64]]] = []
        self._pairs = self._src_tokens = self._tgt_tokens = 0

    def __len__(self) -> int:
        return self._pairs

    def has_room_for(self, src: TokenRows, tgt: TokenRows) -> bool:
        """Whether these rows still fit under 32-bit offsets."""
        return max((self._src_tokens + len(src.ids), self._tgt_tokens + len(tgt.ids))) <= MAX_TOKENS

    def extend(self, src: TokenRows, tgt: TokenRows, lines: npt.NDArray[np.int64]) -> None:
        """Append pairs, with their line numbers."""
        self._parts.append((src, tgt, lines))
        self._pairs += len(lines)
        self._src_tokens += len(src.ids)
        self._tgt_tokens += len(tgt.ids)

    def write(self, path: Path, *, corpus: int = 0) -> None:
        """Write the shard, whole or not at all; all pairs come from corpus `corpus`."""
        src, tgt, lines = zip(*self._parts, strict=True) if self._parts else ((), (), ())
        offsets = [_offsets([rows.lengths for rows in side]) for side in (src, tgt)]
        all_lines = np.concatenate([np.zeros(0, _LINE), *lines]).astype(_LINE)
        sizes = len(all_lines), self._src_tokens, self._tgt_tokens
        header = _HEADER.pack(*_Header(_MAGIC, FORMAT_VERSION, self._token_bytes, *sizes, corpus))
        ids = ID_TYPES[self._token_bytes]
        with atomic_writer(path) as file:
            file.write(header)
            file.write(_CRC.pack(_checksum(header, *offsets, all_lines)))
            for part in (*offsets, all_lines):
                file.write(part.data)
            for rows in (*src, *tgt):
                file.write(rows.ids.astype(ids, copy=False).data)


def _offsets(lengths: Sequence[Lengths]) -> npt.NDArray[Any]:
    counts = np.concatenate([np.zeros(1, np.int32), *lengths])
    return np.cumsum(counts, dtype=np.int64).astype(_OFFSET)


class _Header(NamedTuple):
    magic: bytes
    version: int
    token_bytes: int
    pairs: int
    src_tokens: int
    tgt_tokens: int
    corpus: int

    def check(self, path: Path, size: int) -> None:
        """Raise DataError if this is not the header of a shard of `size` bytes."""
        if self.magic != _MAGIC:
            raise DataError(
                f"{path} is not a shard of nmt: it starts with {self.magic!r}; {_AGAIN}"
            )
        if self.version != FORMAT_VERSION:
            raise DataError(
                f"{path}: this shard has format {self.version}, but this nmt reads "
                f"{FORMAT_VERSION}; {_AGAIN}"
            )
        if self.token_bytes not in ID_TYPES:
            raise DataError(
                f"{path}: its header is damaged: {self.token_bytes} bytes a token; {_AGAIN}"
            )
        # Python integers do not overflow, so that absurd counts cannot give a plausible size.
        offsets = 2 * (self.pairs + 1) * _OFFSET.itemsize + self.pairs * _LINE.itemsize
        expected = _BODY_AT + offsets + (self.src_tokens + self.tgt_tokens) * self.token_bytes
        if size != expected:
            raise DataError(
                f"{path}: {size:,} bytes, but its header asks for {expected:,}; it was cut short "
                f"or altered; {_AGAIN}"
            )


class Shard:
    """One shard, memory-mapped: pairs by index, without copying."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        raw = content[: _HEADER.size]
        header = _Header._make(_HEADER.unpack(raw))
        header.check(path, len(content))
        (crc,) = _CRC.unpack_from(content, _HEADER.size)
        self.path = path
        self.token_bytes, self.corpus = header.token_bytes, header.corpus
        self.src_tokens, self.tgt_tokens = header.src_tokens, header.tgt_tokens
        position = _BODY_AT

        def take(dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
            nonlocal position
            part = np.frombuffer(content, dtype, count, position)
            position += part.nbytes
            return part

        offsets = [take(_OFFSET, header.pairs + 1) for _ in range(2)]
        self._lines = take(_LINE, header.pairs)
        if _checksum(raw, *offsets, self._lines) != crc:
            raise DataError(f"{path}: this shard is altered or damaged; {_AGAIN}")
        ids = [take(ID_TYPES[self.token_bytes], n) for n in (self.src_tokens, self.tgt_tokens)]
        self._sides = tuple(zip(ids, offsets, strict=True))
        # The checksum has touched all pages; used ones come back from the page cache.
        content.madvise(mmap.MADV_DONTNEED)

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Map a shard; DataError names the file if it is not a shard or not complete."""
        try:
            file = open_file(path)
        except FileNotFoundError:
            raise DataError(f"{path}: this shard is missing; {_AGAIN}") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size < _BODY_AT:
                raise DataError(
                    f"{path}: {size} bytes are too few for a shard, whose header has {_BODY_AT}; "
                    f"{_AGAIN}"
                )
            content = _map(file)
        return cls(path, content)

    def __len__(self) -> int:
        return len(self._lines)

    def all_lengths(self) -> tuple[Lengths, Lengths]:
        """Return the source and target tokens of each pair, without eos: (pairs,) each."""
        src, tgt = (np.diff(offsets).astype(np.int32) for _, offsets in self._sides)
        return src, tgt

    def lengths(self, indices: npt.NDArray[np.int64]) -> tuple[Lengths, Lengths]:
        """Return the source and target lengths of some pairs, without eos: (len(indices),) each."""
        src, tgt = (
            (offsets[indices + 1] - offsets[indices]).astype(np.int32) for _, offsets in self._sides
        )
        return src, tgt

    def count_in_sources(self, token: int) -> npt.NDArray[np.int64]:
        """Return how often each source has a token: (pairs,)."""
        ids, offsets = self._sides[0]
        return np.diff(np.searchsorted(np.flatnonzero(ids == token), offsets))

    def rows(self, indices: npt.NDArray[np.int64]) -> tuple[TokenRows, TokenRows]:
        """Return copies of the source and target ids of some pairs, in the order of `indices`."""
        src, tgt = (
            TokenRows.gather(ids, offsets[indices].astype(np.int64), lengths)
            for (ids, offsets), lengths in zip(self._sides, self.lengths(indices), strict=True)
        )
        return src, tgt

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Return the source and target ids of a pair: read-only views, (length,) each."""
        src, tgt = (ids[offsets[index] : offsets[index + 1]] for ids, offsets in self._sides)
        return src, tgt

    def line(self, index: int) -> int:
        """Return the line number of a pair in its corpus, from 1."""
        return int(self._lines[index])

    def check_content(self, src_vocab_size: int, tgt_vocab_size: int) -> None:
        """Raise DataError if an offset or a token id is impossible."""
        for (ids, offsets), size in zip(self._sides, (src_vocab_size, tgt_vocab_size), strict=True):
            ascending = bool((offsets[:-1] <= offsets[1:]).all())
            if not ascending or offsets[0] != 0 or offsets[-1] != len(ids):
                raise DataError(f"{self.path}: its offsets are damaged; {_AGAIN}")
            if len(ids) and int(ids.max()) >= size:
                raise DataError(f"{self.path}: a token is not in the vocabulary; {_AGAIN}")


def _map(file: IO[bytes]) -> mmap.mmap:
    """Map a file read-only until nothing refers to it; the file may be closed.

    Python keeps a descriptor for each map, and a folder may have more shards than a process may
    have descriptors at first, which are about a thousand. So we ask for all that it may have.
    """
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if least < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _checksum(header: bytes, *parts: npt.NDArray[Any]) -> int:
    crc = zlib.crc32(header)
    for part in parts:
        crc = zlib.crc32(part.data, crc)
    return crc
