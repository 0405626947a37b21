"""A folder that appears under its name when it is complete, and not before.

It is built beside its place as `NAME.partial-PID`, locked while its process lives, and renamed.
What a killed process has left is removed by the next one that builds the same folder; that is told
by the lock, which dies with its holder, so that a living neighbour is never touched.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from nmt import console
from nmt.errors import NMTError, UsageError
from nmt.files import sync_folder

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def check_target(out: Path) -> None:
    """Refuse a place where no folder can be made, before any work is done."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: this is a file, and a folder is to be written there")
    nearest = next((folder for folder in out.parents if folder.exists()), out)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{out}: {nearest} is not a folder that you may write to")


@contextlib.contextmanager
def building_folder(out: Path) -> Iterator[Path]:
    """Yield a new folder; on leaving without an error it becomes `out`, else nothing is left."""
    out.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(out)
    partial = out.with_name(f"{out.name}.partial-{os.getpid()}")
    partial.mkdir()
    lock = os.open(partial, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # no locks on this file system: nothing is removed
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield partial
        sync_folder(partial)
        _move(partial, out)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if error.errno in _NO_SPACE:
            raise NMTError(
                f"{out.parent}: the disk is full; nothing was left there, make room and run the "
                "same command again"
            ) from None
        raise
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
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


def _remove_abandoned(out: Path) -> None:
    left = re.compile(re.escape(out.name) + r"\.partial-\d+")
    for folder in out.parent.iterdir():
        if left.fullmatch(folder.name) and folder.is_dir() and _is_abandoned(folder):
            console.notice(f"removing {folder}, which an earlier run was stopped in")
            shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    pid = int(folder.name.rpartition("-")[2])
    if pid != os.getpid():  # in a container, every process may get the number of its predecessor
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            pass
        except OSError:
            return False
        else:
            return False
    # Not on this machine, or in this container; the lock tells of the others.
    try:
        lock = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
