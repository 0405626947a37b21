"""Atomic writing of files, their checksums, and locks; JSON and TOML from anybody.

Every file is written under a temporary name in the same folder, flushed to disk and renamed; then
the folder is flushed too. After a crash or a full disk there is the earlier file or none.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import select
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nmt import console
from nmt.errors import HeldOff, NMTError

TEMPORARY_SUFFIX = ".partial"


_LOCK_SECONDS = 1.0


def lock(descriptor: int, path: Path, busy: str) -> None:
    """Lock an open file or folder until it is closed, or until this process dies.

    On a file system without locks, the work goes on after a warning.

    Args:
        descriptor: of the file or folder.
        path: where it is.
        busy: says that another process holds the lock.

    Raises:
        HeldOff: if another process holds the lock.
    """
    from filelock import lock_descriptor

    # The workers of a process that was killed hold its lock until they notice: for moments.
    give_up_at = time.monotonic() + _LOCK_SECONDS
    try:
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() > give_up_at:
                raise HeldOff(busy)
            time.sleep(0.02)
    except OSError:
        _warn_without_locks(path.parent)


@functools.cache  # one warning for all files in a folder
def _warn_without_locks(folder: Path) -> None:
    console.warning(f"{folder}: this file system has no locks; do not run two jobs here at a time")


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def resolved(path: Path) -> Path:
    """Return where a path leads, after following all symbolic links.

    Raises:
        OSError: if a link leads to itself, for which `Path.resolve` would raise RuntimeError.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


@contextlib.contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Name the file in errors of the system, which does not name it if the disk is full."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write; on leaving without an error it becomes `path`."""
    path = resolved(path)  # a symbolic link stays, and its file is replaced
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # The system names no file if the disk is full, or only the temporary one.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder for files; on leaving without an error it becomes `path`.

    A folder that is there is replaced.
    """
    path = resolved(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    replaced = temporary.with_suffix(f".replaced{TEMPORARY_SUFFIX}")
    with naming(path):
        temporary.mkdir()
    try:
        yield temporary
        for entry in temporary.iterdir():
            with entry.open("rb") as written:
                os.fsync(written.fileno())
        if path.exists():
            os.replace(path, replaced)
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        for left_over in (temporary, replaced):
            shutil.rmtree(left_over, ignore_errors=True)


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes `path` when it is complete."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        yield file


def read_when_ready(descriptor: int, most_bytes: int) -> bytes:
    """Return the next bytes, b"" at the end; wait even if the descriptor does not block."""
    while True:
        select.select([descriptor], [], [])
        with contextlib.suppress(BlockingIOError):  # another process was faster
            return os.read(descriptor, most_bytes)


def megabytes(size: int) -> str:
    """Write a number of bytes for people."""
    return f"{size / 1e6:,.1f} MB"


def check_room(path: Path, needed: int) -> None:
    """Raise NMTError if the disk has no room for a file of `needed` bytes."""
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise NMTError(
            f"{path}: the disk has {megabytes(free)} free, and {megabytes(needed)} are needed; "
            "make room"
        )


def write_text(path: Path, text: str) -> None:
    """Write a small UTF-8 file, completely or not at all."""
    with atomic_writer(path) as file:
        file.write(text.encode())


def link_or_copy(source: Path, path: Path) -> None:
    """Make `path` a hard link to `source`, or a copy if a link is not possible."""
    if path.exists() and path.samefile(source):
        return  # renaming one name of a file over another would leave both
    with atomic_path(path) as temporary:
        temporary.unlink(missing_ok=True)  # a link that a killed process left must not be written
        try:
            os.link(source, temporary)
        except OSError:
            temporary.write_bytes(source.read_bytes())


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that may be damaged or hostile; ValueError says in one line what is wrong."""
    with _one_kind_of_error():
        return json.loads(text)


def parse_toml(text: bytes) -> dict[str, Any]:
    """Parse TOML that may be damaged or hostile; ValueError says in one line what is wrong."""
    with _one_kind_of_error():
        return tomllib.loads(text.decode())


@contextlib.contextmanager
def _one_kind_of_error() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ValueError("nested too deep") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # what Python says here is for programmers
        limit = sys.get_int_max_str_digits()
        raise ValueError(f"a number has more than {limit:,} digits") from None
