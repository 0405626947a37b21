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

from nmt.data.manifest import FILE_NAME
from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.files import TEMPORARY_SUFFIX, megabytes, sync_folder

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
            f"{out.parent}: the disk has {megabytes(free)} free, and about "
            f"{megabytes(needed - there)} are needed; make room, or choose another place"
        )


@contextlib.contextmanager
def building_folder(out: Path) -> Iterator[Path]:
    """Yield the folder to build in; on leaving without an error it becomes `out`.

    It holds what an earlier run has left. Where text or options are at fault all is removed; every
    other failure, such as a full disk or a worker that died, leaves the progress for the next run.

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
        except (DataError, UsageError):
            shutil.rmtree(partial, ignore_errors=True)  # of no use to another run
            raise
        except BaseException as error:
            left = _leave(partial)
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(f"stopped; {left}: run the same command again to go on") from None
            if isinstance(error, OSError) and error.errno in _NO_SPACE:
                raise NMTError(
                    f"{out.parent}: the disk is full; {left}: make room and run the same command "
                    "again"
                ) from None
            raise


def _leave(partial: Path) -> str:
    """Keep what another run can go on with, else nothing; return the words for it."""
    progress = partial / PROGRESS_FOLDER
    if progress.is_dir() and any(progress.iterdir()):
        return f"what is complete waits in {partial}"
    shutil.rmtree(partial, ignore_errors=True)
    return "nothing was left there"


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
    # Killed in its last moment, a run has removed the record of its progress and not yet the name.
    marks = (partial / PROGRESS_FOLDER, partial / FILE_NAME)
    if not partial.is_dir() or not (
        any(mark.exists() for mark in marks) or not any(partial.iterdir())
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
        for half_written in partial.rglob(f"*{TEMPORARY_SUFFIX}"):  # by a process that was killed
            half_written.unlink()
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
