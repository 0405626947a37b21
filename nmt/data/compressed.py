"""Writing compressed files; `corpus` reads them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from nmt.errors import UsageError


def _gzip(file: IO[bytes]) -> Any:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # the same for the same text


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


def is_compressed(path: Path) -> bool:
    """Tell whether a file of this name is to be compressed."""
    return path.suffix in _WRITERS


def compress(source: Path, target: Path, suffix: str) -> None:
    """Write a file again in the form of a suffix, and flush it to the disk.

    Raises:
        UsageError: if a package is missing for it.
    """
    with target.open("wb") as file:
        with source.open("rb") as content, _WRITERS[suffix](file) as writer:
            shutil.copyfileobj(content, writer, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
