"""A folder that appears under its name when it is complete, and not before.

It is built beside its place as `NAME.partial`, locked while its process lives, and renamed. What a
run that was stopped or killed has left is handed to the next one, which may go on with it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import NMTError, Stopped, UsageError
from nmt.files import sync_folder

PROGRESS_FOLDER = "progress"
"""What tells our unfinished folders from anything else of that name."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def check_target(out: Path) -> None:
    """Refuse a place where no folder can be made, before any work is done."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: this is a file, and a folder is to be written there")
    nearest = _nearest_folder(out)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{out}: {nearest} is not a folder that you may write to")


def check_space(out: Path, needed: int) -> None:
    """Refuse a disk that has not room for about `needed` bytes, before any work is done."""
    partial = _partial(out)
    there = sum(path.stat().st_size for path in partial.rglob("*")) if partial.is_dir() else 0
    free = shutil.disk_usage(_nearest_folder(out)).free
    if free + there < needed:
        raise NMTError(
            f"{out.parent}: the disk has {_megabytes(free)} free, and about "
            f"{_megabytes(needed - there)} are needed; make room, or choose another place"
        )


@contextlib.contextmanager
def building_folder(out: Path) -> Iterator[Path]:
    """Yield the folder to build in; on leaving without an error it becomes `out`.

    It holds what an earlier run has left. A run that is stopped or finds the disk full leaves it
    for the next one, if there is any progress; every other error removes it.

    Raises:
        Stopped: another process is building the same folder, or this one was interrupted.
        NMTError: the disk is full.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(out)
    with _locked(partial):
        try:
            yield partial
            shutil.rmtree(partial / PROGRESS_FOLDER)
            sync_folder(partial)
            _move(partial, out)
        except (KeyboardInterrupt, OSError) as error:
            if not any((partial / PROGRESS_FOLDER).iterdir()):
                shutil.rmtree(partial, ignore_errors=True)
                left = "nothing was left there"
            else:
                left = f"what is complete waits in {partial}"
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(f"stopped; {left}: run the same command again to go on") from None
            if error.errno in _NO_SPACE:
                raise NMTError(
                    f"{out.parent}: the disk is full; {left}: make room and run the same command "
                    "again"
                ) from None
            raise
        except Exception:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def empty_folder(partial: Path) -> None:
    """Remove what an earlier run has left in the folder."""
    for path in partial.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (partial / PROGRESS_FOLDER).mkdir()


@contextlib.contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """Make the folder where it is not there, and keep other processes from it."""
    with contextlib.suppress(FileExistsError):
        partial.mkdir()
    if not partial.is_dir() or not (
        (partial / PROGRESS_FOLDER).is_dir() or not any(partial.iterdir())
    ):
        raise UsageError(f"{partial} is in the way, and is not of `nmt prepare`; move it away")
    lock = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Stopped(
                f"another process is building {partial}; wait for it, and run the same command "
                "again"
            ) from None
        except OSError:
            pass  # this file system has no locks
        (partial / PROGRESS_FOLDER).mkdir(exist_ok=True)
        yield
    finally:
        os.close(lock)


def _move(partial: Path, out: Path) -> None:
    try:
        partial.rename(out)  # onto nothing or an empty folder; the system refuses any other
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise UsageError(f"{out}: something else was put there in the meantime") from None
        raise
    sync_folder(out.parent)


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


def _nearest_folder(out: Path) -> Path:
    return next((folder for folder in (out, *out.parents) if folder.exists()), out)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
