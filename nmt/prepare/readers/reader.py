"""What all readers of parallel text share: what they find out, and records of files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.data.manifest import FileRecord
from nmt.system.files import sha256_file

MAX_BAD_SHARE = 0.1
"""A larger share of bad lines means another encoding or other columns, not a few accidents."""


@dataclass(frozen=True)
class Survey:
    """What reading a text once has shown of it, or of one of its sides."""

    record: FileRecord
    lines: int
    text_bytes: int  # size of the text, uncompressed
    warnings: tuple[str, ...]  # what is odd about it


def stamps(files: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    """Return size and modification time of each file, to notice changes while we read."""
    return tuple((status.st_size, status.st_mtime_ns) for status in (path.stat() for path in files))


def record_file(path: Path) -> FileRecord:
    return FileRecord(path.name, path.stat().st_size, sha256_file(path))


def record_files(name: str, files: Sequence[Path]) -> FileRecord:
    """Return one record of several files: of their sizes together, and of all their checksums."""
    records = [record_file(path) for path in files]
    listed = "".join(f"{record.sha256}  {record.name}\n" for record in records)
    size = sum(record.size for record in records)
    return FileRecord(name, size, hashlib.sha256(listed.encode()).hexdigest())
