"""Compressed text: streaming decompression, and compression of whole files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from nmt.errors import DataError, UsageError

_SLICE = 1 << 12  # bytes decompressed at a time: a megabyte may become gigabytes of text
_PIECE = 1 << 20  # bytes of text passed on at a time

DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)
"""The errors that damaged files raise."""


def _gzip(file: IO[bytes]) -> Any:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # equal text gives equal bytes


def _zstd(file: IO[bytes]) -> Any:
    try:
        import zstandard
    except ImportError:
        raise UsageError("writing .zst needs zstandard; run `pip install nmt[zstd]`") from None
    return zstandard.ZstdCompressor().stream_writer(file, closefd=False)


_WRITERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": _gzip,
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".zst": _zstd,
}


def _read_zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise DataError("reading .zst needs zstandard; run `pip install nmt[zstd]`") from None
    return zstandard.ZstdDecompressor().decompressobj()


_READERS: dict[str, Callable[[], Any]] = {
    ".gz": partial(zlib.decompressobj, wbits=16 + zlib.MAX_WBITS),  # gzip, with its checksums
    ".xz": lzma.LZMADecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".zst": _read_zstd,
}

SUFFIXES = tuple(_READERS)
"""File name suffixes of compressed files."""

MAGIC = {b"\x1f\x8b\x08": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"} | {
    b"BZh%d1AY&SY" % level: ".bz2" for level in range(1, 10)
}
"""The first bytes of compressed files."""


class Decompressor:
    """Decompresses a file, which may be several compressed files concatenated."""

    def __init__(self, suffix: str) -> None:
        """Start with the compression that belongs to a suffix."""
        self._open = _READERS[suffix]
        self._file: Any = None  # the decompressor of the current file
        self._is_empty = True

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Take bytes and yield the text decompressed so far; raises `DAMAGE`."""
        parts: list[bytes] = []
        for start in range(0, len(block), _SLICE):
            rest = block[start : start + _SLICE]
            while rest:
                if self._file is None:
                    rest = rest if self._is_empty else rest.lstrip(b"\0")  # padding
                    if not rest:
                        break
                    self._file, self._is_empty = self._open(), False
                parts.append(self._decompress(rest))
                rest = self._file.unused_data
                if self._file.eof:
                    self._file = None
            if sum(map(len, parts)) >= _PIECE:
                yield b"".join(parts)
                parts = []
        yield b"".join(parts)

    def _decompress(self, block: bytes) -> bytes:
        try:
            return bytes(self._file.decompress(block))
        except DAMAGE:
            raise
        except Exception as error:  # zstandard's own error; the package may not be installed
            raise EOFError(str(error)) from None

    def finish(self) -> None:
        """Check that the file is complete; raises `DAMAGE`."""
        if self._is_empty:
            raise EOFError("it is empty")
        if self._file is not None:
            raise EOFError("its end is missing")


def is_compressed(path: Path) -> bool:
    """Return whether a file of this name must be compressed."""
    return path.suffix in _WRITERS


def compress(source: Path, target: Path, suffix: str) -> None:
    """Compress a file in the format of a suffix, and flush it to disk.

    Raises:
        UsageError: if a package is missing.
    """
    with target.open("wb") as file:
        with source.open("rb") as content, _WRITERS[suffix](file) as writer:
            shutil.copyfileobj(content, writer, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
