"""Limits on what a file may ask for: a few bytes of a hostile one could take all memory.

They are far above what text, models and recipes need.
"""

from __future__ import annotations

import re
import resource
from importlib.abc import MetaPathFinder

from nmt.cpu import default_threads
from nmt.errors import DataError, NMTError

ADDRESSES = {"numpy": 120 << 20, "torch": 720 << 20, "nmt.training.train": 1600 << 20}
"""Bytes of addresses that a process needs to load a package, besides those of threads.

With less, which `ulimit -v` may say, a signal ends it. NumPy takes 57 MiB, and torch without CUDA
580. Training then starts threads of its own.
"""
ADDRESSES_OF_A_THREAD = 48 << 20
"""For each thread of NumPy's library for matrices, which takes 40 MiB."""
UNPACKED_FREELY = 1 << 24
"""Bytes that a compressed file may become, whatever its size."""
MOST_TIMES_UNPACKED = 200
"""Beyond that, how many times its size. Text becomes 3 to 30 times its compressed size."""
MOST_OPEN_ELEMENTS = 1_000
"""Elements of XLIFF, each inside the other. Each takes in the namespaces of the outer ones."""
LONGEST_SETTINGS = 1 << 24
"""Bytes of YAML or TOML. Parsed, they take a hundred times as much memory."""
MOST_KEY_PARTS = 16
"""Of a dotted key of TOML, for which tomllib takes memory by the square of its parts."""

_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?:{_PART}\.[ \t]*+){{{MOST_KEY_PARTS}}}")


class CheckAddresses(MetaPathFinder):
    """Checks the limit on memory when a package is loaded that would die of it."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Find nothing, so that others do; NMTError if `ulimit -v` grants too little."""
        granted, _hard = resource.getrlimit(resource.RLIMIT_AS)
        if fullname not in ADDRESSES or granted == resource.RLIM_INFINITY:
            return
        needed = ADDRESSES[fullname] + default_threads() * ADDRESSES_OF_A_THREAD
        if granted < needed:
            raise NMTError(
                f"memory is limited to {granted >> 20:,} MiB (ulimit -v), but {fullname} needs "
                f"{needed >> 20:,} MiB; raise the limit"
            )


def check_unpacked(name: str, packed: int, unpacked: int) -> None:
    """Raise DataError if so many bytes become far too many."""
    if unpacked > max(UNPACKED_FREELY, MOST_TIMES_UNPACKED * packed):
        raise DataError(
            f"{name}: becomes more than {MOST_TIMES_UNPACKED} times its size when it is unpacked; "
            "if you trust it, unpack it yourself"
        )


def check_settings(text: str) -> None:
    """Raise ValueError if the text of YAML or TOML is too long."""
    if len(text) > LONGEST_SETTINGS:
        raise ValueError(f"it has more than {LONGEST_SETTINGS >> 20} MiB")


def check_toml(text: str) -> None:
    """Raise ValueError if parsing TOML would take far more memory than its text."""
    check_settings(text)
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_KEY_PARTS} parts")
