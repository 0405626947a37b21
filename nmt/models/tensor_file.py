"""A safetensors file with named tensors, a header and a checksum, verified before use.

safetensors holds no code and no pickle, so a stranger's file can be opened. It has no checksum, so
the metadata holds a SHA-256 over the header and all tensors. Header and arrays are read without
torch, which takes seconds to load.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from nmt.errors import DataError, NMTError
from nmt.files import atomic_path, check_room, parse_json

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


class TensorFile:
    """An open file with its header. Tensors are read one at a time."""

    def __init__(
        self,
        path: Path,
        *,
        kind: str,
        version: int,
        framework: Literal["pt", "numpy"] = "pt",
    ) -> None:
        """Open and check the header.

        framework: read torch tensors, or NumPy arrays without loading torch.

        Raises:
            DataError: if the file is missing, cut short, of another kind or of another version.
        """
        self.path = path
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        try:
            self._file = cast(Any, safe_open(path, framework=framework))
        except SafetensorError as error:
            raise DataError(f"{path}: damaged, or not a file that nmt wrote ({error})") from None
        metadata = self._file.metadata() or {}
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
        self.names: list[str] = sorted(self._file.keys())

    def read(self, name: str) -> Tensor:
        """Read one tensor."""
        tensor: Tensor = self._get(name)
        return tensor

    def read_bytes(self, name: str) -> bytes:
        """Read a tensor of bytes.

        Raises:
            DataError: if it has another type.
        """
        tensor = self._get(name)
        if _type_of(tensor) != "torch.uint8":
            raise DataError(f"{self.path}: damaged: {name} holds {_type_of(tensor)}, not bytes")
        return bytes(_content(tensor))

    def verify(self) -> None:
        """Compare the checksum.

        Raises:
            DataError: if any byte of the header or of a tensor has changed.
        """
        if _checksum(self._header_text, self._read_all()) != self.checksum:
            raise DataError(f"{self.path}: damaged: its checksum does not match its content")

    def _get(self, name: str) -> Any:
        if name not in self.names:
            raise DataError(f"{self.path}: damaged: it lacks {name!r}")
        try:
            return self._file.get_tensor(name)
        except (AttributeError, TypeError):  # NumPy does not have the type
            raise DataError(f"{self.path}: damaged: {name!r} has an unknown type") from None

    def _read_all(self) -> Iterator[tuple[str, Tensor | NDArray[Any]]]:
        return ((name, self._get(name)) for name in self.names)


def _checksum(header: str, tensors: Iterator[tuple[str, Tensor | NDArray[Any]]]) -> str:
    digest = hashlib.sha256(header.encode())
    for name, tensor in tensors:
        digest.update(f"\n{name} {_type_of(tensor)} {tuple(tensor.shape)}\n".encode())
        digest.update(_content(tensor))
    return digest.hexdigest()


def _type_of(tensor: Tensor | NDArray[Any]) -> str:
    """Return torch's name of a type, for example `torch.float32`, of NumPy's `float32`, too."""
    return f"torch.{str(tensor.dtype).removeprefix('torch.')}"


def _content(tensor: Tensor | NDArray[Any]) -> memoryview:
    if isinstance(tensor, np.ndarray):
        return tensor.reshape(-1).view(np.uint8).data
    import torch

    return tensor.flatten().view(torch.uint8).numpy().data
