"""Is a file a whole fastText model? Some releases of its library crash where it is not.

The format is that of fastText's `FastText::saveModel`: arguments, dictionary, and two matrices.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

_MAGIC, _VERSIONS = 793712314, (11, 12)
_CENTROIDS = 256  # of each part of a vector that is quantised


def check_model(path: Path) -> None:
    """Raise ValueError if a file is not a whole model whose sizes agree."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check(_Cursor(data))  # mmap raises ValueError if the file is empty


class _Cursor:
    """A place in a file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._place = data, 0

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._place:
            raise ValueError(f"it ends after {len(self._data):,} bytes, which is too soon")
        self._place += size

    def read(self, form: str) -> tuple[Any, ...]:
        """Read numbers in the notation of `struct`."""
        packed = struct.Struct(f"<{form}")
        self.skip(packed.size)
        return packed.unpack_from(self._data, self._place - packed.size)

    def skip_string(self) -> None:
        end = self._data.find(b"\0", self._place)
        self.skip(end + 1 - self._place)


def _check(file: _Cursor) -> None:
    magic, version = file.read("ii")
    if magic != _MAGIC or version not in _VERSIONS:
        raise ValueError("it does not begin like one")
    dim, *_, buckets, _, _, _, _ = file.read("12id")
    size, num_words, num_labels, _, kept_ngrams = file.read("iiiqq")
    _agree(size == num_words + num_labels, min(num_words, num_labels) >= 0)
    for _ in range(size):
        file.skip_string()
        file.skip(9)  # its count and type
    is_pruned = kept_ngrams >= 0
    file.skip(8 * kept_ngrams if is_pruned else 0)
    (is_quantised,) = file.read("?")
    rows = _check_matrix(file, dim, is_quantised)
    _agree(rows >= num_words + (kept_ngrams if is_pruned else buckets))
    (is_output_quantised,) = file.read("?")
    rows = _check_matrix(file, dim, is_quantised and is_output_quantised)
    _agree(rows >= num_labels)


def _check_matrix(file: _Cursor, dim: int, is_quantised: bool) -> int:
    """Return the number of rows."""
    if not is_quantised:
        rows, columns = file.read("qq")
        _agree(rows >= 0, columns == dim)
        file.skip(4 * rows * columns)
        return int(rows)
    has_norms, rows, columns, codes = file.read("?qqi")
    file.skip(codes)
    parts = _check_quantiser(file, dim)
    _agree(columns == dim, rows >= 0, codes == rows * parts)
    if has_norms:
        file.skip(rows)
        _check_quantiser(file, 1)
    return int(rows)


def _check_quantiser(file: _Cursor, dim: int) -> int:
    """Return the number of parts of a vector."""
    own_dim, parts, width, last_width = file.read("4i")
    _agree(own_dim == dim, min(parts, width) > 0, 0 < last_width <= width)
    _agree((parts - 1) * width + last_width == dim)
    file.skip(4 * dim * _CENTROIDS)
    return int(parts)


def _agree(*conditions: bool) -> None:
    if not all(conditions):
        raise ValueError("its sizes contradict each other")
