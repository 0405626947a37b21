"""Compressed text: streaming decompression, and compression of whole files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from nmt.errors import DataError, UsageError

try:
    if sys.version_info >= (3, 14):
        from compression import zstd as zstd
    else:
        from backports import zstd as zstd
except ImportError:
    zstd = None  # type: ignore[assignment]

UNPACKED_FREELY = 1 << 24  # bytes that a compressed file may become, whatever its size
MOST_TIMES_UNPACKED = 200
"""Beyond that, how many times its size. Text becomes 3 to 30 times its compressed size, and a few
bytes of a hostile file could take all memory."""

_PIECE = 1 << 20  # bytes of text at a time: a megabyte may become gigabytes of it
_INSTALL = (
    "needs a Python that was built with zstd"  # else it has no `compression.zstd`
    if sys.version_info >= (3, 14)
    else "needs a package; run `pip install backports.zstd`"
)

DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, *((zstd.ZstdError,) if zstd else ()))
"""The errors that damaged files raise."""


def _gzip(file: IO[bytes]) -> Any:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # equal text gives equal bytes


def _write_zstd(file: IO[bytes]) -> Any:
    if zstd is None:
        raise UsageError(f"writing .zst {_INSTALL}")
    writer = zstd.ZstdFile(file, "wb")
    writer.write(b"")  # without a write it would leave an empty file, which nobody can read
    return writer


_WRITERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": _gzip,
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".zst": _write_zstd,
}


class _Gzip:
    """gzip, with its checksums, by the interface of `lzma.LZMADecompressor`."""

    def __init__(self) -> None:
        self._file = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input, self.eof, self.unused_data = True, False, b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._file.decompress(data or self._file.unconsumed_tail, max_length)
        self.needs_input = len(text) < max_length
        self.eof, self.unused_data = self._file.eof, self._file.unused_data
        return text


def _read_zstd() -> Any:
    if zstd is None:
        raise DataError(f"reading .zst {_INSTALL}")
    return zstd.ZstdDecompressor()


_READERS: dict[str, Callable[[], Any]] = {
    ".gz": _Gzip,
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _read_zstd,
}

SUFFIXES = tuple(_READERS)  # file name suffixes of compressed files

MAGIC = {b"\x1f\x8b\x08": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"} | {
    b"BZh%d1AY&SY" % level: ".bz2" for level in range(1, 10)
}
"""The first bytes of compressed files."""


class Decompressor:
    """Decompresses a file, which may be several compressed files concatenated."""

    def __init__(self, suffix: str) -> None:
        """Start with the compression that belongs to a suffix."""
        self._open = _READERS[suffix]
        self._file: Any = None  # what decompresses the current one
        self._is_empty = True

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Take bytes and yield the text decompressed so far; raises `DAMAGE`."""
        parts, size = list[bytes](), 0
        while True:
            if self._file is None:
                block = block if self._is_empty else block.lstrip(b"\0")  # padding
                if not block:
                    break
                self._file, self._is_empty = self._open(), False
            parts.append(self._file.decompress(block, _PIECE))
            size += len(parts[-1])
            if size >= _PIECE:
                yield b"".join(parts)
                parts, size = [], 0
            block = b""
            if self._file.eof:
                block, self._file = self._file.unused_data, None
            elif self._file.needs_input:
                break
        yield b"".join(parts)

    def finish(self) -> None:
        """Check that the file is complete; raises `DAMAGE`."""
        if self._is_empty:
            raise EOFError("it is empty")
        if self._file is not None:
            raise EOFError("its end is missing")


def check_unpacked(name: str, packed: int, unpacked: int) -> None:
    """Raise DataError if so many bytes become far too many."""
    if unpacked > max(UNPACKED_FREELY, MOST_TIMES_UNPACKED * packed):
        raise DataError(
            f"{name}: becomes more than {MOST_TIMES_UNPACKED} times its size when it is unpacked; "
            "if you trust it, unpack it yourself"
        )


def is_compressed(path: Path) -> bool:
    """Return whether a file of this name must be compressed."""
    return path.suffix in _WRITERS


def compress(source: Path, target: Path, suffix: str) -> None:
    """Compress a file into a new one by a suffix, and flush it to disk (UsageError)."""
    with target.open("xb") as file:  # follows no link
        with source.open("rb") as content, _WRITERS[suffix](file) as writer:
            shutil.copyfileobj(content, writer, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
