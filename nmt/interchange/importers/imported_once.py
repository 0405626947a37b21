"""Folders of Hugging Face as models: imported once, to a file with their checksum in its name.

This file imports no torch, so that a folder that was imported before is found without it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from nmt import console
from nmt.errors import UsageError
from nmt.interchange.ctranslate2_manifest import is_export
from nmt.system.files import IMPORTED, sha256_file

_SUFFIX = ".safetensors"
_VERSION = 1  # of what an import makes of the same files
_READ = (".bin", ".json", ".model", ".py", ".safetensors", ".spm")
"""How the names of files end that an import reads, or refuses."""


def model_of(path: Path) -> Path:
    """Return the model of a path: itself, or the file that a folder is imported to (NMTError).

    Two processes at once both import the folder, to the same bytes.
    """
    has_config = any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
    if not has_config or is_export(path):
        return path
    imported = path / f"{IMPORTED}{_checksum(path)[:16]}{_SUFFIX}"
    if not imported.is_file():
        if not os.access(path, os.W_OK):
            raise UsageError(
                f"{path}: cannot be written; import it to a file: nmt import huggingface {path} OUT"
            )
        from nmt.interchange.importers.huggingface import import_huggingface

        import_huggingface(path, imported, src_lang=None, tgt_lang=None, positions=None)
        console.notice(f"{path}: imported to {imported}, which is done once")
        for earlier in path.glob(f"{IMPORTED}*{_SUFFIX}"):
            if earlier != imported:
                earlier.unlink(missing_ok=True)
    return imported


def _checksum(folder: Path) -> str:
    """Return the checksum of all files of a folder that an import reads."""
    digest = hashlib.sha256(str(_VERSION).encode())
    for path in sorted(folder.iterdir()):
        if path.suffix in _READ and not path.name.startswith(IMPORTED) and path.is_file():
            digest.update(f"{path.name} {sha256_file(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
