"""Shards: the binary files that hold the token ids of parallel text.

    header          64 bytes, little-endian: see `_HEADER`, then the CRC
    src offsets     uint32, pairs + 1 of them: pair i is src[offsets[i] : offsets[i + 1]]
    tgt offsets     uint32, pairs + 1
    src token ids   uint16 where the vocabulary fits, else uint32; without begin and end
    tgt token ids   the same

A shard is written once and opened with mmap: ranks share its pages, any pair is reached at once,
and opening costs no copy. The header carries a CRC of itself and of the offsets, because they are
believed afterwards; the token ids are covered by the SHA-256 in `dataset.json`.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.errors import DataError
from nmt.files import atomic_writer

FORMAT_VERSION = 1
# Offsets are 32 bits wide, and one side of a shard can hold no more tokens than they can count.
MAX_TOKENS = 2**32 - 1

_MAGIC = b"NMTSHARD"
# magic, format version, bytes a token id, pairs, src tokens, tgt tokens, room for later
_HEADER = struct.Struct("<8sII QQQ 20x")
_CRC = struct.Struct("<I")
_BODY_AT = _HEADER.size + _CRC.size
_OFFSET: np.dtype[Any] = np.dtype("<u4")
_IDS: dict[int, np.dtype[Any]] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}
_TYPECODES = {2: "H", 4: "I"}

Ids = npt.NDArray[np.unsignedinteger[Any]]
Lengths = npt.NDArray[np.int32]


def token_bytes_for(vocab_size: int) -> int:
    """Return how many bytes an id below `vocab_size` takes in a shard."""
    return 2 if vocab_size <= 1 << 16 else 4


class ShardBuilder:
    """Collects pairs of token ids in memory and writes them as one shard."""

    def __init__(self, *, token_bytes: int) -> None:
        self._token_bytes = token_bytes
        self._src, self._tgt = (array(_TYPECODES[token_bytes]) for _ in range(2))
        self._src_offsets, self._tgt_offsets = array("I", [0]), array("I", [0])

    def __len__(self) -> int:
        return len(self._src_offsets) - 1

    @property
    def src_tokens(self) -> int:
        return len(self._src)

    @property
    def tgt_tokens(self) -> int:
        return len(self._tgt)

    def has_room_for(self, src: int, tgt: int) -> bool:
        """Whether a pair of so many tokens still fits under 32-bit offsets."""
        return self.src_tokens + src <= MAX_TOKENS and self.tgt_tokens + tgt <= MAX_TOKENS

    def add(self, src: Iterable[int], tgt: Iterable[int]) -> None:
        """Append one pair."""
        self._src.extend(src)
        self._tgt.extend(tgt)
        self._src_offsets.append(len(self._src))
        self._tgt_offsets.append(len(self._tgt))

    def write(self, path: Path) -> None:
        """Write the shard whole or not at all."""
        src_offsets = np.asarray(self._src_offsets).astype(_OFFSET, copy=False)
        tgt_offsets = np.asarray(self._tgt_offsets).astype(_OFFSET, copy=False)
        ids = _IDS[self._token_bytes]
        header = _HEADER.pack(
            _MAGIC, FORMAT_VERSION, self._token_bytes, len(self), self.src_tokens, self.tgt_tokens
        )
        with atomic_writer(path) as file:
            file.write(header)
            file.write(_CRC.pack(_checksum(header, src_offsets, tgt_offsets)))
            for part in (
                src_offsets,
                tgt_offsets,
                np.asarray(self._src).astype(ids, copy=False),
                np.asarray(self._tgt).astype(ids, copy=False),
            ):
                file.write(part.data)


class Shard:
    """One shard, memory-mapped: pairs by index, without copying."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        header, self._token_bytes, pairs, src_tokens, tgt_tokens, crc = _parse(path, content)
        self.path = path
        at = _BODY_AT

        def take(dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
            nonlocal at
            part = np.frombuffer(content, dtype, count, at)
            at += part.nbytes
            return part

        self._src_offsets = take(_OFFSET, pairs + 1)
        self._tgt_offsets = take(_OFFSET, pairs + 1)
        if _checksum(header, self._src_offsets, self._tgt_offsets) != crc:
            raise DataError(f"{path}: this shard has been altered or damaged; {_AGAIN}")
        self._src: Ids = take(_IDS[self._token_bytes], src_tokens)
        self._tgt: Ids = take(_IDS[self._token_bytes], tgt_tokens)

    @classmethod
    def open(cls, path: Path) -> Shard:
        """Map a shard; DataError with its name when it is not one, or not whole."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            raise DataError(f"{path}: this shard is missing; {_AGAIN}") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size < _BODY_AT:
                raise DataError(
                    f"{path}: {size} bytes are too few for a shard, whose header alone has "
                    f"{_BODY_AT}; {_AGAIN}"
                )
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(path, content)

    def __len__(self) -> int:
        return len(self._src_offsets) - 1

    @property
    def token_bytes(self) -> int:
        return self._token_bytes

    @property
    def src_tokens(self) -> int:
        return len(self._src)

    @property
    def tgt_tokens(self) -> int:
        return len(self._tgt)

    @property
    def src_lengths(self) -> Lengths:
        """Tokens of each pair's source side, without end: (pairs,)."""
        return np.diff(self._src_offsets).astype(np.int32)

    @property
    def tgt_lengths(self) -> Lengths:
        """Tokens of each pair's target side, without end: (pairs,)."""
        return np.diff(self._tgt_offsets).astype(np.int32)

    def src(self, index: int) -> Ids:
        """Return the source ids of a pair: a read-only view, (length,)."""
        return self._view(self._src, self._src_offsets, index)

    def tgt(self, index: int) -> Ids:
        """Return the target ids of a pair: a read-only view, (length,)."""
        return self._view(self._tgt, self._tgt_offsets, index)

    def check_content(self, src_vocab_size: int, tgt_vocab_size: int) -> None:
        """DataError where an offset or a token id cannot be what `prepare` wrote."""
        for ids, offsets, size in (
            (self._src, self._src_offsets, src_vocab_size),
            (self._tgt, self._tgt_offsets, tgt_vocab_size),
        ):
            ascending = bool((offsets[:-1] <= offsets[1:]).all())
            if not ascending or offsets[0] != 0 or offsets[-1] != len(ids):
                raise DataError(f"{self.path}: its offsets are damaged; {_AGAIN}")
            if len(ids) and int(ids.max()) >= size:
                raise DataError(f"{self.path}: a token is not in the vocabulary; {_AGAIN}")

    def _view(self, ids: Ids, offsets: npt.NDArray[Any], index: int) -> Ids:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.path} has {len(self)} pairs, and {index} was asked for")
        return ids[offsets[index] : offsets[index + 1]]


_AGAIN = "run `nmt prepare` again into a new folder"


def _parse(path: Path, content: mmap.mmap) -> tuple[bytes, int, int, int, int, int]:
    """Return header, bytes a token, pairs, tokens of both sides and CRC, once they make sense."""
    header = content[: _HEADER.size]
    magic, version, token_bytes, pairs, src_tokens, tgt_tokens = _HEADER.unpack(header)
    (crc,) = _CRC.unpack_from(content, _HEADER.size)
    if magic != _MAGIC:
        raise DataError(f"{path}: this is no shard of nmt: it starts with {magic!r}")
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path}: this shard has format {version}, and this nmt reads {FORMAT_VERSION}; "
            f"{_AGAIN}"
        )
    if token_bytes not in _IDS:
        raise DataError(f"{path}: its header is damaged: {token_bytes} bytes a token; {_AGAIN}")
    # In Python's integers, so that no absurd count can overflow into a believable size.
    expected = (
        _BODY_AT + 2 * (pairs + 1) * _OFFSET.itemsize + (src_tokens + tgt_tokens) * int(token_bytes)
    )
    if len(content) != expected:
        raise DataError(
            f"{path}: {len(content):,} bytes, but its header asks for {expected:,}; it was cut "
            f"short or altered; {_AGAIN}"
        )
    return header, token_bytes, pairs, src_tokens, tgt_tokens, crc


def _checksum(header: bytes, *offsets: npt.NDArray[Any]) -> int:
    crc = zlib.crc32(header)
    for part in offsets:
        crc = zlib.crc32(part.data, crc)
    return crc
