"""How the C library hands out memory while a model computes on a CPU."""

from __future__ import annotations

import contextlib
import ctypes

# The parameters of glibc's mallopt, from its malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, on systems with glibc.

    Tensors of many MB come and go in every layer. Otherwise each is a mapping of its own, and the
    system clears all its pages anew: 100,000 page faults an update of the small model in training.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library has other ways
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_TOP_PAD, 64 << 20)
