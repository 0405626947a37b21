"""Marian's binary models: `model.bin`, with matrices in fp32 or int8, such as those of Firefox.

A file holds a table of arrays, then their names, shapes and contents. An int8 matrix is stored
transposed, except for embeddings, and the factor that it was multiplied by follows it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.errors import DataError, UsageError
from nmt.system.files import UnchangedFile

SUFFIX = ".bin"
_VERSION = 1
_HEADER = struct.Struct("<4Q")  # bytes of the name, type, dimensions, bytes of the content
_NUMBER = struct.Struct("<Q")
_PLAIN = {0x101: "<i1", 0x402: "<f2", 0x404: "<f4"}
"""NumPy's types by Marian's numbers. It has others, whose layout is for one kind of processor."""
_SCALED = {0x4101: "<i1", 0x4102: "<i2", 0x10001: "<i1", 0x10002: "<i2"}
"""The same of integers for the library intgemm: first as Firefox's Marian numbers them."""
_TYPES = _PLAIN | _SCALED
_WRITTEN = {np.dtype(np.int8): 0x101, np.dtype(np.float32): 0x404}
_ROUNDED = 0x4101
_ALIGNMENT = 256
TABLE = "Wemb"  # in the names of embeddings


Rounded = tuple[NDArray[np.int8], np.float32]
"""A matrix in int8, and the factor that it was multiplied by."""

Arrays = Mapping[str, NDArray[Any] | Rounded]


def rounded(matrix: NDArray[np.float32], factor: float) -> Rounded:
    """Round a matrix multiplied by a factor. What is larger than 127 becomes 127."""
    numbers = np.clip(np.rint(matrix * np.float32(factor)), -127, 127)
    return numbers.astype(np.int8), np.float32(factor)


def write_arrays(arrays: Arrays) -> bytes:
    """Return the content of a file: options in int8, matrices in fp32 or rounded."""
    headers, names, shapes, contents = list[bytes](), b"", b"", list[bytes]()
    for name, array in arrays.items():
        if isinstance(array, tuple):
            numbers, factor = array
            kind, shape = _ROUNDED, numbers.shape
            content = (numbers if TABLE in name else numbers.T).tobytes() + factor.tobytes()
        else:
            kind, shape, content = _WRITTEN[array.dtype], array.shape, array.tobytes()
        content += bytes(-len(content) % _ALIGNMENT)
        headers.append(_HEADER.pack(len(name) + 1, kind, len(shape), len(content)))
        names += name.encode() + b"\0"
        shapes += np.array(shape, "<i4").tobytes()
        contents.append(content)
    start = _NUMBER.pack(_VERSION) + _NUMBER.pack(len(headers)) + b"".join(headers) + names + shapes
    padding = -(len(start) + _NUMBER.size) % _ALIGNMENT
    return b"".join((start, _NUMBER.pack(padding), bytes(padding), *contents))


class BinaryArrays:
    """The arrays of a file, read one by one, as `numpy.load` has them."""

    def __init__(self, path: Path) -> None:
        """Read the table; DataError if the file is missing or damaged."""
        self._path = path
        self._file = UnchangedFile(path)
        try:
            self._table = self._read_table()
        except (struct.error, ValueError, UnicodeDecodeError):
            raise DataError(f"{path}: damaged, or not a model.bin of Marian") from None

    @property
    def files(self) -> list[str]:
        return list(self._table)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Read an array; all but bytes in fp32."""
        type_, shape, place, size = self._table[name]
        content = bytearray(size)
        if type_ not in _TYPES:
            raise UsageError(
                f"{self._path}: {name} has the type {type_:#x}, perhaps for one kind of "
                "processor; convert the model with marian-conv --gemm-type intgemm8 or float32"
            )
        kind, count = np.dtype(_TYPES[type_]), math.prod(shape)
        if size < count * kind.itemsize + (4 if type_ in _SCALED else 0):
            raise DataError(f"{self._path}: damaged: {name} has fewer values than its shape says")
        self._file.fill(memoryview(content), place)
        values = np.frombuffer(content, kind, count)
        if type_ not in _SCALED:
            wide = np.float32 if kind.kind == "f" else kind
            return values.reshape(shape).astype(wide, copy=False)
        (factor,) = np.frombuffer(content, "<f4", 1, count * kind.itemsize)
        if not factor > 0:
            raise DataError(f"{self._path}: damaged: {name} was multiplied by {factor}")
        numbers: NDArray[Any] = values.astype(np.float32) / factor
        return numbers.reshape(shape) if TABLE in name else numbers.reshape(shape[::-1]).T

    def _read_table(self) -> dict[str, tuple[int, tuple[int, ...], int, int]]:
        """Return of each array its type, its shape, where it stands, and its bytes."""
        place = 0

        def take(size: int) -> bytes:
            nonlocal place
            if size > self._file.size - place:
                raise ValueError("cut short")
            place += size
            return self._file.read(place - size, size)

        (version,), (count,) = (_NUMBER.unpack(take(_NUMBER.size)) for _ in range(2))
        if version != _VERSION:
            raise ValueError("another version")
        headers = list(_HEADER.iter_unpack(take(count * _HEADER.size)))
        names = [take(size).rstrip(b"\0").decode() for size, _, _, _ in headers]
        shapes = [np.frombuffer(take(4 * dims), "<i4") for _, _, dims, _ in headers]
        take(_NUMBER.unpack(take(_NUMBER.size))[0])  # up to a multiple of 256
        table = {}
        for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
            if (shape < 0).any():
                raise ValueError("negative size")
            table[name] = kind, tuple(map(int, shape)), place, size
            place += size
        if place > self._file.size:
            raise ValueError("cut short")
        return table
