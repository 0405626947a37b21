"""Folders of Hugging Face as models: imported once, to a file with their checksum in its name.

It lies in the folder, or in the user's cache if that cannot be written. Whoever gave us the folder
may have put any model there under that name. So the cache has a record of what this user's nmt has
made, and all else is imported anew. This file imports no torch, so that a folder that was imported
before is found without it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nmt import console
from nmt.errors import HeldOff
from nmt.interchange.ctranslate2_manifest import is_export
from nmt.system.files import IMPORTED, lock, sha256_file, user_cache, write_text

_SUFFIX = ".safetensors"
_RECORD = ".made"
_KEPT_SECONDS = 90 * 86_400
_VERSION = 1  # of what an import makes of the same files
_READ = (".bin", ".json", ".model", ".py", ".safetensors", ".spm")
"""How the names of files end that an import reads, or refuses."""


def model_of(path: Path) -> Path:
    """Return the model of a path: itself, or the file that a folder is imported to (NMTError)."""
    has_config = any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
    if not has_config or is_export(path):
        return path
    from nmt.models.model_file import model_checksum  # loads SentencePiece

    name = f"{IMPORTED}{_checksum(path)[:16]}{_SUFFIX}"
    cache = user_cache() / "imported"
    folder = path if os.access(path, os.W_OK) else cache
    imported, record = folder / name, cache / f"{name}{_RECORD}"
    if not _is_recorded(imported, record):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder, path):
            if not _is_recorded(imported, record):  # another process may have made it
                _import(path, imported)
                with suppress(OSError):  # then it is imported again the next time
                    record.parent.mkdir(parents=True, exist_ok=True)
                    write_text(record, model_checksum(imported))
                    _forget_unused(cache)
    with suppress(OSError):
        os.utime(record)
    return imported


def _is_recorded(imported: Path, record: Path) -> bool:
    """Tell whether a file is what an import has made; DataError if it is damaged.

    When it is opened, its weights are compared with its checksum.
    """
    from nmt.models.model_file import model_checksum  # loads SentencePiece

    try:
        return imported.is_file() and model_checksum(imported) == record.read_text()
    except OSError:
        return False


def _forget_unused(cache: Path) -> None:
    """Delete the imports in the user's cache that nobody has used for long, and their records."""
    for record in cache.glob(f"{IMPORTED}*{_RECORD}"):
        if record.stat().st_mtime < time.time() - _KEPT_SECONDS:
            record.with_suffix("").unlink(missing_ok=True)
            record.unlink()


def _import(folder: Path, imported: Path) -> None:
    from nmt.interchange.huggingface import import_huggingface

    import_huggingface(folder, imported, src_lang=None, tgt_lang=None, positions=None)
    console.notice(f"{folder}: imported to {imported}, which is done once")
    for earlier in folder.glob(f"{IMPORTED}*{_SUFFIX}"):  # the cache has those of others
        if earlier != imported:
            earlier.unlink()


def _checksum(folder: Path) -> str:
    """Return the checksum of all files of a folder that an import reads."""
    digest = hashlib.sha256(str(_VERSION).encode())
    for path in sorted(folder.iterdir()):
        if path.suffix in _READ and not path.name.startswith(IMPORTED) and path.is_file():
            digest.update(f"{path.name} {sha256_file(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


@contextmanager
def _locked(folder: Path, path: Path) -> Iterator[None]:
    """Lock a folder, after other processes have unlocked it."""
    descriptor, is_waiting = os.open(folder, os.O_RDONLY), False
    try:
        while True:
            try:
                lock(descriptor, folder, f"{path}: another process imports it")
                break
            except HeldOff as error:
                if not is_waiting:
                    console.notice(f"{error}; waiting for it")
                is_waiting = True
        yield
    finally:
        os.close(descriptor)
