"""Atomic writing of files, their checksums, and locks; JSON and TOML from anybody.

Every file is written in a temporary folder beside it, flushed to disk and renamed; then the folder
is flushed too. After a crash or a full disk there is the earlier file or none.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import io
import json
import os
import select
import shutil
import stat
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from nmt import console
from nmt.errors import DataError, HeldOff, NMTError

TEMPORARY_SUFFIX = ".partial"
IMPORTED = "imported-by-nmt-"
"""How the names of files begin that nmt makes by itself from a folder of Hugging Face."""
_ROOT = 0  # the administrator's user id

_LOCK_SECONDS = 1.0
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"

LONGEST_SETTINGS = 1 << 24
"""Bytes of YAML or TOML, far above what recipes need. Parsed, they take a hundred times as much."""


def lock(descriptor: int, path: Path, busy: str) -> None:
    """Lock an open file or folder until it is closed, or until this process dies.

    On a file system without locks, the work goes on after a warning.

    descriptor: of the file or folder.
    path: where it is.
    busy: says that another process holds the lock.
    HeldOff if another process holds the lock.
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


def user_cache() -> Path:
    """Return ~/.cache/nmt, or where XDG_CACHE_HOME says."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nmt"


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def resolved(path: Path) -> Path:
    """Return where a path leads, after following all symbolic links.

    OSError if a link leads to itself, for which `Path.resolve` would raise RuntimeError; or if it
    is of another user, who may want a file of ours to be written over.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if path.is_symlink():
        trusted = (os.geteuid(), path.parent.stat().st_uid, _ROOT)
        if path.lstat().st_uid not in trusted:
            raise _planted(path)
    return target


def is_there(path: Path) -> bool:
    """Return whether there is something at a path; a link that points nowhere is nothing.

    OSError if the system cannot tell, for example without permission. Since Python 3.14,
    `Path.exists` and `Path.is_file` return False then.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@contextlib.contextmanager
def naming(path: Path | str, *, instead: bool = False) -> Iterator[None]:
    """Name the file in errors of the system, which does not name it if the disk is full.

    instead: also in place of another file that they name.
    """
    try:
        yield
    except OSError as error:
        if instead or not error.filename:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def atomic_path(path: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write; on leaving without an error it becomes `path`.

    is_folder: yield an empty folder for files. A folder that is there is replaced.
    """
    path = resolved(path)  # a symbolic link stays, and its file is replaced
    with _working_folder(path) as working:
        temporary = working / path.name
        if is_folder:
            temporary.mkdir()
        yield temporary
        for entry in temporary.iterdir() if is_folder else [temporary]:
            with entry.open("rb") as written:
                os.fsync(written.fileno())
        if is_folder and path.exists():
            os.replace(path, working / "replaced")
        os.replace(temporary, path)
        sync_folder(path.parent)


def atomic_folder(path: Path) -> contextlib.AbstractContextManager[Path]:
    """Yield an empty folder for files that becomes `path`; see `atomic_path`."""
    return atomic_path(path, is_folder=True)


@contextlib.contextmanager
def _working_folder(path: Path) -> Iterator[Path]:
    """Yield a folder beside `path` in which only this user can write, so that no link is planted.

    It is locked, and removed in the end. What a killed process leaves, the next one removes that
    writes `path`. Errors of the system name `path`.
    """
    try:
        remove_left_overs(path.parent, path.name)
        with contextlib.ExitStack() as leaving:
            descriptor = None
            while descriptor is None:
                prefix = f".{path.name}."
                made = tempfile.mkdtemp(dir=path.parent, prefix=prefix, suffix=TEMPORARY_SUFFIX)
                leaving.callback(shutil.rmtree, made, ignore_errors=True)
                descriptor = _locked(Path(made), even_without_locks=True)
            leaving.callback(os.close, descriptor)
            yield Path(made)
    except OSError as error:
        # The system names no file if the disk is full, or only the temporary one.
        if TEMPORARY_SUFFIX in str(error.filename or TEMPORARY_SUFFIX):
            error.filename, error.filename2 = str(path), None
        raise


def remove_left_overs(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes have left in a folder while they wrote one file, or any."""
    pattern = "*" if name is None else glob.escape(name)
    for left_over in folder.glob(f".{pattern}.????????{TEMPORARY_SUFFIX}"):
        if (descriptor := _locked(left_over)) is not None:
            shutil.rmtree(left_over, ignore_errors=True)
            os.close(descriptor)


def _locked(folder: Path, *, even_without_locks: bool = False) -> int | None:
    """Return the descriptor of a folder, locked; None if it is gone, or another process has it."""
    from filelock import lock_descriptor

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        is_locked = lock_descriptor(descriptor, blocking=False)
    except OSError:  # this file system has no locks
        is_locked = even_without_locks
    if is_locked and folder.exists():
        return descriptor
    os.close(descriptor)
    return None


def open_unlinked(path: Path, flags: int = 0) -> BinaryIO:
    """Open a file that only nmt writes, for reading and writing; make it if it is missing.

    In a folder that others can write to, a link to another file may have been planted in its place.

    path: where it is.
    flags: of `os.open`, besides the usual ones.
    OSError if it is a symbolic link, has other names, or is no file.
    """
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.fdopen(os.open(path, flags, 0o666), "r+b")
    except OSError:
        if path.is_symlink():
            raise _planted(path) from None
        raise
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        file.close()
        raise _planted(path)
    return file


def check_owner(descriptor: int, path: Path) -> None:
    """Raise OSError unless a working file or folder belongs to this user.

    Others may have planted it, with content that they chose.
    """
    owner = os.fstat(descriptor).st_uid
    if owner != os.geteuid():
        with tempfile.TemporaryFile(dir=path.parent) as file:  # some file systems map users
            if owner != os.fstat(file.fileno()).st_uid:
                raise _planted(path)


def _planted(path: Path) -> OSError:
    return OSError(errno.EPERM, f"{path.name} is a link or another user's; remove it", str(path))


@contextlib.contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes `path` when it is complete."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        yield file


def refuse_pointer(path: Path, start: bytes) -> None:
    """Raise DataError if a file begins like a pointer of Git LFS, and so lacks its content."""
    if start.startswith(_LFS_POINTER):
        raise DataError(f"{path}: is a pointer of Git LFS, not the file: run git lfs pull")


def open_file(path: Path) -> io.BufferedReader:
    """Open a file of a folder for reading.

    DataError if it is a folder, or a pointer of Git LFS; or a pipe or a device, which one would
    wait for. OSError if it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DataError(f"{path}: not a file, but a folder, a pipe or a device")
    with contextlib.ExitStack() as closing:
        file = closing.enter_context(os.fdopen(descriptor, "rb"))
        refuse_pointer(path, file.peek(len(_LFS_POINTER)))
        closing.pop_all()  # it is right, and stays open
    return file


def read_file(path: Path) -> bytes:
    """Return the content of a file of a folder; see `open_file`."""
    with open_file(path) as file:
        return file.read()


class UnchangedFile:
    """An open file that is read at any place, as long as nobody writes over it.

    It is not mapped: a process that reads a map is killed if the file is cut short meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Open a file; DataError if there is none."""
        try:
            self._path, self._file = path, open_file(path)
        except FileNotFoundError:
            raise DataError(f"{path}: no such file") from None
        self._state = self._present_state()
        self.size, _ = self._state

    def read(self, start: int, size: int) -> bytes:
        """Return the bytes from `start` on; see `fill`."""
        content = bytearray(size)
        self.fill(memoryview(content), start)
        return bytes(content)

    def fill(self, buffer: memoryview, start: int) -> None:
        """Fill a buffer with the bytes from `start` on.

        DataError if there are fewer, or the file was changed since it was opened.
        """
        while buffer.nbytes:
            with naming(self._path):
                read = os.preadv(self._file.fileno(), [buffer], start)
            self.check(is_whole=read > 0)
            buffer, start = buffer[read:], start + read

    def check(self, *, is_whole: bool = True) -> None:
        """Raise DataError if the file was changed since it was opened, or is not whole."""
        if not is_whole or self._present_state() != self._state:
            raise DataError(
                f"{self._path}: was changed while it was being read; run the same command again"
            )

    def _present_state(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns


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
            f"{_published(path)}: the disk has {megabytes(free)} free, and {megabytes(needed)} are "
            "needed; make room"
        )


def _published(path: Path) -> Path:
    """Return what a path in a working folder becomes, which is what the user has named."""
    for working in reversed(path.parents):
        if working.name.endswith(TEMPORARY_SUFFIX):
            return working.parent / path.relative_to(working).parts[0]
    return path


def write_text(path: Path, text: str) -> None:
    """Write a small UTF-8 file, completely or not at all."""
    with atomic_writer(path) as file:
        file.write(text.encode())


def link_or_copy(source: Path, path: Path) -> None:
    """Make `path` a hard link to `source`, or a copy if a link is not possible."""
    if path.exists() and path.samefile(source):
        return  # renaming one name of a file over another would leave both
    with atomic_path(path) as temporary:
        try:
            os.link(source, temporary)
        except OSError:
            temporary.write_bytes(source.read_bytes())


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_settings(text: str) -> None:
    """Raise ValueError if the text of YAML or TOML is too long."""
    if len(text) > LONGEST_SETTINGS:
        raise ValueError(f"it has more than {LONGEST_SETTINGS >> 20} MiB")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that may be damaged or hostile; ValueError says in one line what is wrong."""
    with _one_kind_of_error():
        return json.loads(text)


def parse_toml(text: bytes) -> dict[str, Any]:
    """Parse TOML that may be damaged or hostile; ValueError says in one line what is wrong."""
    decoded = text.decode()
    check_settings(decoded)
    with _one_kind_of_error():
        return tomllib.loads(decoded)


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
