"""One name for every lack of memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Let every lack of memory, of a GPU or of the machine, be a MemoryError; also a decorator."""
    try:
        yield
    except RuntimeError as error:
        # By words, which torch.OutOfMemoryError has too: what torch's allocator of CPU memory,
        # CUDA's libraries and CTranslate2 raise has no type of its own.
        if any(
            words in str(error)
            for words in ("DefaultCPUAllocator", "ALLOC_FAILED", "out of memory")
        ):
            raise MemoryError(str(error)) from error
        raise
