"""A safetensors file with named tensors, a header and a checksum, verified before use.

safetensors holds no code and no pickle, so a stranger's file can be opened. It has no checksum, so
the metadata holds a SHA-256 over the header and all tensors. All but tensors is read without torch,
which takes seconds to load.

The file is read into memory, not mapped. Else somebody who writes over it would change the weights
of a job that is under way, or kill it.

Source: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from nmt.errors import DataError, NMTError
from nmt.files import atomic_path, check_room, naming, parse_json

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
    from safetensors.torch import save_file

    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(header, sort_keys=True)
    metadata = {
        "kind": kind,
        "version": str(version),
        "header": text,
        "sha256": _checksum(text, ((name, stored[name]) for name in sorted(stored))),
    }
    with atomic_path(path) as temporary:
        try:
            check_room(path, sum(tensor.nbytes for tensor in stored.values()))
            temporary.touch()
            usual_mode = temporary.stat().st_mode
            save_file(stored, temporary, metadata)
            temporary.chmod(usual_mode)  # safetensors makes files readable only by the owner
        except (SafetensorError, FileNotFoundError) as error:  # a full disk or a missing folder
            raise NMTError(f"{path}: could not be written: {error}") from None


_TYPES = {
    "F64": ("float64", 8),
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}
"""torch's names of types, and the bytes of an element."""
_MOST_HEADER_BYTES = 100_000_000  # of safetensors itself
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class _TensorPlace:
    """Where a tensor is in a file."""

    type: str
    shape: tuple[int, ...]
    start: int
    end: int


class TensorFile:
    """An open file with its header. Tensors are read one at a time."""

    def __init__(self, path: Path, *, kind: str, version: int) -> None:
        """Open and check the header.

        Raises:
            DataError: if the file is missing, cut short, of another kind or of another version.
        """
        self.path = path
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._state = self._present_state()
        try:
            metadata, self._places = self._read_layout()
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(f"{path}: damaged, or not a file that nmt wrote") from None
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
        self.names: list[str] = sorted(self._places)

    def read(self, name: str) -> Tensor:
        """Read one tensor.

        Raises:
            DataError: if the file lacks it, or was changed since it was opened.
        """
        import torch

        from nmt.models.device import memory_errors

        place = self._place(name)
        with memory_errors():
            content = torch.empty(place.end - place.start, dtype=torch.uint8)
        self._fill(content.numpy().data, place.start)
        return content.view(getattr(torch, place.type)).view(place.shape)

    def read_bytes(self, name: str) -> bytes:
        """Read a tensor of bytes.

        Raises:
            DataError: if it has another type, or see `read`.
        """
        place = self._place(name)
        if place.type != "uint8":
            raise DataError(f"{self.path}: damaged: {name} holds {place.type}, not bytes")
        content = bytearray(place.end - place.start)
        self._fill(memoryview(content), place.start)
        return bytes(content)

    def verify(self) -> None:
        """Compare the checksum.

        Raises:
            DataError: if any byte of the header or of a tensor has changed.
        """
        digest = hashlib.sha256(self._header_text.encode())
        block = memoryview(bytearray(_BLOCK_BYTES))
        for name in self.names:
            place = self._places[name]
            digest.update(_title(name, place.type, place.shape))
            for start in range(place.start, place.end, _BLOCK_BYTES):
                part = block[: place.end - start]
                self._fill(part, start)
                digest.update(part)
        if digest.hexdigest() != self.checksum:
            raise DataError(f"{self.path}: damaged: its checksum does not match its content")

    def _place(self, name: str) -> _TensorPlace:
        if name not in self._places:
            raise DataError(f"{self.path}: damaged: it lacks {name!r}")
        return self._places[name]

    def _present_state(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def _fill(self, buffer: memoryview, start: int) -> None:
        """Fill a buffer with the bytes of the file that begin at `start`."""
        while buffer.nbytes:
            with naming(self.path):
                read = os.preadv(self._descriptor, [buffer], start)
            if not read or self._present_state() != self._state:
                raise DataError(
                    f"{self.path}: was changed while it was being read; run the same command again"
                )
            buffer, start = buffer[read:], start + read

    def _read_layout(self) -> tuple[dict[str, str], dict[str, _TensorPlace]]:
        """Return the metadata and where each tensor is; any error if it is no safetensors file."""
        size, _ = self._state
        first = 8 + int.from_bytes(os.pread(self._descriptor, 8, 0), "little")
        if first > min(size, _MOST_HEADER_BYTES):
            raise ValueError
        content = bytearray(first - 8)
        self._fill(memoryview(content), 8)
        entries = parse_json(bytes(content))
        metadata = dict(entries.pop("__metadata__", {}))
        if set(map(type, metadata.values())) - {str}:
            raise ValueError
        places, end = {}, first
        for name, entry in sorted(entries.items(), key=lambda one: one[1]["data_offsets"]):
            kind, item_bytes = _TYPES[entry["dtype"]]
            shape = tuple(operator.index(length) for length in entry["shape"])
            place = _TensorPlace(kind, shape, end, end + math.prod(shape) * item_bytes)
            offsets = [place.start - first, place.end - first]
            if entry["data_offsets"] != offsets or not all(0 <= one < 2**48 for one in shape):
                raise ValueError
            places[name], end = place, place.end
        if end != size:
            raise ValueError
        return metadata, places


def _checksum(header: str, tensors: Iterator[tuple[str, Tensor]]) -> str:
    import torch

    digest = hashlib.sha256(header.encode())
    for name, tensor in tensors:
        digest.update(_title(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)))
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _title(name: str, type_: str, shape: tuple[int, ...]) -> bytes:
    return f"\n{name} torch.{type_} {shape}\n".encode()
