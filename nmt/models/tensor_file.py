"""A safetensors file with named tensors, a header and a checksum, verified before use.

safetensors holds no code and no pickle, so a stranger's file can be opened. It has no checksum, so
the metadata holds a SHA-256 over the header and all tensors. All but tensors is read without torch,
which takes seconds to load.

The file is read into memory, not mapped. Else somebody who writes over it would change the weights
of a job that is under way, or kill it. It is written here, and not by the library, whose files of
the same tensors differ in the order of their metadata.

Source: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import DataError
from nmt.system.files import UnchangedFile, atomic_path, check_room, parse_json

if TYPE_CHECKING:
    from torch import Tensor


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    header: Mapping[str, object],
    *,
    kind: str,
    version: int,
) -> None:
    """Write a file whole or not at all; `TensorFile` checks its `kind` and `version`."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(header, sort_keys=True)
    checksum = _checksum(text, ((name, stored[name]) for name in sorted(stored)))
    metadata = {"kind": kind, "version": str(version), "header": text, "sha256": checksum}
    entries: dict[str, object] = {"__metadata__": metadata}
    # Large elements first, so that each tensor begins at a multiple of the size of its own.
    names, end = sorted(stored, key=lambda name: (-stored[name].itemsize, name)), 0
    for name in names:
        tensor, start = stored[name], end
        end += tensor.nbytes
        kind_, shape = _CODES[_type_of(tensor)], list(tensor.shape)
        entries[name] = {"dtype": kind_, "shape": shape, "data_offsets": [start, end]}
    layout = json.dumps(entries).encode()
    layout += b" " * (-len(layout) % 8)
    with atomic_path(path) as temporary:
        check_room(path, end)
        with temporary.open("wb") as file:
            file.write(len(layout).to_bytes(8, "little") + layout)
            for name in names:
                file.write(_bytes_of(stored[name]))


_TYPES = {
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "C64": ("complex64", 8),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U64": ("uint64", 8),
    "U32": ("uint32", 4),
    "U16": ("uint16", 2),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}
"""torch's names of types, and the bytes of an element."""
_CODES = {name: code for code, (name, _) in _TYPES.items()}
_MOST_HEADER_BYTES = 100_000_000  # of safetensors itself
_BLOCK_BYTES = 1 << 20


Place = tuple[str, tuple[int, ...], int, int]
"""The type and shape of a tensor, and where it begins and ends in a file."""


class SafetensorsFile:
    """An open file of anybody. Tensors are read one at a time."""

    def __init__(self, path: Path) -> None:
        """Read where the tensors are.

        DataError if the file is missing, cut short, or not one of safetensors.
        """
        self.path = path
        self._file = UnchangedFile(path)
        try:
            self.metadata, self._places = self._read_layout()
        except (ValueError, TypeError, KeyError, AttributeError):
            start = self._file.read(0, min(1_000, self._file.size)).decode(errors="ignore")
            is_text = start and not re.search("[\0-\x08\x0e-\x1f]", start)
            fault = "is text, not a model" if is_text else "damaged, or not a safetensors file"
            raise DataError(f"{path}: {fault}") from None
        self.names: list[str] = sorted(self._places)

    def read(self, name: str) -> Tensor:
        """Read one tensor; DataError if the file lacks it, or was changed since it was opened."""
        import torch

        from nmt.models.device import memory_errors

        type_, shape, start, end = self._place(name)
        with memory_errors():
            content = torch.empty(end - start, dtype=torch.uint8)
        self._file.fill(content.numpy().data, start)
        return content.view(getattr(torch, type_)).view(shape)

    def _place(self, name: str) -> Place:
        if name not in self._places:
            raise DataError(f"{self.path}: damaged: it lacks {name!r}")
        return self._places[name]

    def _read_layout(self) -> tuple[dict[str, str], dict[str, Place]]:
        """Return the metadata and where each tensor is; any error if it is no safetensors file."""
        first = 8 + int.from_bytes(self._file.read(0, min(8, self._file.size)), "little")
        if first > min(self._file.size, _MOST_HEADER_BYTES):
            raise ValueError
        entries = parse_json(self._file.read(8, first - 8))
        metadata = dict(entries.pop("__metadata__", {}))
        if set(map(type, metadata.values())) - {str}:
            raise ValueError
        places, start = {}, first
        for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
            if entry["dtype"] not in _TYPES:
                raise DataError(f"{self.path}: {name} has the type {entry['dtype']!r:.40}")
            kind, item_bytes = _TYPES[entry["dtype"]]
            shape = tuple(operator.index(length) for length in entry["shape"])
            end = start + math.prod(shape) * item_bytes
            is_next = entry["data_offsets"] == [start - first, end - first]
            if not is_next or not all(0 <= length < 2**48 for length in shape):
                raise ValueError
            places[name], start = (kind, shape, start, end), end
        if start != self._file.size:
            raise ValueError
        return metadata, places


class TensorFile(SafetensorsFile):
    """An open file that nmt wrote, with its header."""

    def __init__(self, path: Path, *, kind: str, version: int) -> None:
        """Open and check the header.

        DataError if the file is missing, cut short, of another kind or of another version.
        """
        super().__init__(path)
        metadata = self.metadata
        if metadata.get("kind") != kind:
            raise DataError(
                f"{path}: not {kind} of nmt, but {metadata.get('kind', 'another file')}"
            )
        if metadata.get("version") != str(version):
            raise DataError(
                f"{path}: {kind} of format version {metadata.get('version')}; this nmt reads "
                f"version {version}"
            )
        self.checksum: str = metadata.get("sha256", "")
        self._header_text: str = metadata.get("header", "")
        try:
            header = parse_json(self._header_text)
        except ValueError:
            header = None
        if not isinstance(header, dict):
            raise DataError(f"{path}: damaged: its header is not a JSON object")
        self.header: dict[str, Any] = header

    def read_bytes(self, name: str) -> bytes:
        """Read a tensor of bytes; DataError if it has another type, or see `read`."""
        type_, _, start, end = self._place(name)
        if type_ != "uint8":
            raise DataError(f"{self.path}: damaged: {name} holds {type_}, not bytes")
        return self._file.read(start, end - start)

    def verify(self) -> None:
        """Compare the checksum; DataError if any byte of the header or of a tensor has changed."""
        digest = hashlib.sha256(self._header_text.encode())
        block = memoryview(bytearray(_BLOCK_BYTES))
        for name in self.names:
            type_, shape, first, end = self._places[name]
            digest.update(_title(name, type_, shape))
            for start in range(first, end, _BLOCK_BYTES):
                part = block[: end - start]
                self._file.fill(part, start)
                digest.update(part)
        if digest.hexdigest() != self.checksum:
            raise DataError(f"{self.path}: damaged: its checksum does not match its content")


def _checksum(header: str, tensors: Iterator[tuple[str, Tensor]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name, tensor in tensors:
        digest.update(_title(name, _type_of(tensor), tuple(tensor.shape)))
        digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def _type_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bytes_of(tensor: Tensor) -> memoryview:
    import torch

    return tensor.flatten().view(torch.uint8).numpy().data


def _title(name: str, type_: str, shape: tuple[int, ...]) -> bytes:
    return f"\n{name} torch.{type_} {shape}\n".encode()
