"""Errors for the user, and their exit statuses.

Each error is one line: what was found, what was expected, what to do. The command line prints it
after `nmt: error:`, without a traceback.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_STOPPED = 75  # EX_TEMPFAIL of sysexits.h: everything is saved, run the same command again

# How the message ends if the disk is full. A program that reads it knows that no input is to blame.
DISK_IS_FULL = "the disk is full; make room and run the same command again"


class NMTError(Exception):
    """The work failed for a reason that the user can act on."""

    exit_status = EXIT_FAILED


class UsageError(NMTError):
    """An option, a value or a combination of them makes no sense."""

    exit_status = EXIT_USAGE


class MissingKernel(UsageError):
    """This device lacks the requested kernel for matrix products."""


class DataError(NMTError):
    """An input file is missing, damaged, of another version or of another kind."""


class Stopped(NMTError):
    """The work was stopped on request, and everything is saved."""

    exit_status = EXIT_STOPPED


class HeldOff(Stopped):
    """Another process holds a lock; nothing was started."""


class WorkerDied(NMTError):
    """A worker process was killed; the others stop, too."""


_SYNONYMS = {"gpu": "cuda"}
"""What people write, where the nearest name would be wrong."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'nearest'?` for a mistyped name, or the list of what is known."""
    names = sorted(known)
    if _SYNONYMS.get(name.lower()) in names:
        return f"; write {_SYNONYMS[name.lower()]!r}"
    nearest = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if nearest:
        return f"; did you mean {nearest[0]!r}?"
    return f"; known: {', '.join(names)}"


_MISSING_MEMORY = (
    *("DefaultCPUAllocator", "ALLOC_FAILED", "out of memory", "CUDA calloc"),
    *("Cannot allocate memory", "can't allocate memory", "bad_alloc"),
    *("failed to map segment", "could not create a primitive", "can't start new thread"),
    "Resource temporarily unavailable",  # a thread
)
"""What errors say if memory is missing; most libraries raise a RuntimeError or ImportError."""


def is_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory is missing."""
    is_one = isinstance(error, MemoryError)
    return is_one or any(words in str(error) for words in _MISSING_MEMORY)


def describe(error: NMTError | OSError) -> str:
    """Return the message of an error, in one line."""
    if not isinstance(error, OSError):
        return str(error)
    name = "" if error.filename is None else f"{error.filename}: "
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{name}{DISK_IS_FULL}"
    return f"{name}{error.strerror or error}"
