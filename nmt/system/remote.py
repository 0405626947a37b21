"""Files at URLs such as s3://bucket/news.en: the only module that uses fsspec.

fsspec knows many kinds of storage, and loads a package for each: s3fs for s3://, gcsfs for gs://.
They find credentials by their own rules. Here whole files are copied, from a URL and to one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from nmt import console
from nmt.errors import DataError, NMTError, UsageError
from nmt.system.files import TEMPORARY_SUFFIX, megabytes, user_cache

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_LOCAL = "file://"
_SUFFIXES = re.compile(r"(\.[\w-]{1,12})+$")
_WHOLE_OR_NOTHING = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oss", "s3", "s3a"}
"""Storage in which a file appears when it is complete."""
_NO_PLACE = "no such bucket or folder"


def is_url(name: str) -> bool:
    """Tell whether a name is a URL of another machine's file."""
    return bool(_URL.match(name)) and not name.startswith(_LOCAL)


def without_scheme(name: str) -> str:
    """Return the path of `file:///path`, and other names as they are.

    UsageError if there is no path.
    """
    if name == _LOCAL:
        raise UsageError(f"{name}: has no path; write it as file:///path")
    return name.removeprefix(_LOCAL)


def mirrored(url: str, folder: Path) -> Path:
    """Return the path of a URL's copy in a folder. It shows the URL, for messages.

    Instead of a query it has a checksum, and keeps its suffixes: those of `?file=a.en.gz` count.
    """
    address, question, query = url.partition("?")
    *above, name = console.without_secrets(address).split("/")
    if question:
        suffixes = _SUFFIXES.search(query)
        end = suffixes[0] if suffixes else ""
        above.append(hashlib.sha256(query.removesuffix(end).encode()).hexdigest()[:8])
        name += end
    return folder.joinpath(*(part for part in (*above, name) if part not in ("", ".", "..")))


def cached(url: str) -> Path:
    """Return the path under ~/.cache/nmt where what goes to a URL is made."""
    return mirrored(url, user_cache())


def files_at(url: str) -> list[str]:
    """Return the URLs of the files of a folder `.../` or a pattern `.../*.en`, else the URL.

    NMTError if the folder cannot be listed.
    """
    folder, _, pattern = url.rpartition("/")
    if pattern and "*" not in pattern:
        return [url]
    with _storage(f"{folder}/") as (storage, path):
        entries = storage.ls(path, detail=True)
    names = {entry["name"].rpartition("/")[2] for entry in entries if entry["type"] == "file"}
    matching = [name for name in names if fnmatchcase(name, pattern or "*")]
    places = {entry["name"].strip("/") for entry in entries if entry["type"] == "directory"}
    inner = {place.rpartition("/")[2] for place in places - {path.strip("/")}}
    if shown := sorted(name for name in inner if not name.startswith(".")):
        console.notice(f"{url}: folders in it are not looked into, such as {shown[0]}")
    return sorted(f"{folder}/{name}" for name in matching if name and not name.startswith("."))


def exists(url: str) -> bool:
    """Tell whether there is a file; NMTError if that cannot be told."""
    with _storage(url) as (storage, path):
        return bool(storage.exists(path))


def make_folder(url: str) -> None:
    """Make a folder, in storage that has folders; NMTError if there is none to make it in."""
    with _storage(url, missing=_NO_PLACE) as (storage, path), contextlib.suppress(FileExistsError):
        storage.mkdir(path, create_parents=False)


def download(url: str, path: Path) -> None:
    """Copy a file to this machine.

    DataError if there is none. NMTError if it cannot be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _storage(url) as (storage, remote):
        storage.get_file(remote, str(path))
    if path.is_file():  # else it is a folder
        console.notice(f"{url}: copied {megabytes(path.stat().st_size)}")


def upload(path: Path, url: str) -> None:
    """Copy a file to a URL, where it appears when it is complete; NMTError if that fails."""
    with _storage(url, missing=_NO_PLACE) as (storage, remote):
        if url.partition("://")[0] in _WHOLE_OR_NOTHING:
            storage.put_file(str(path), remote)
        else:
            storage.put_file(str(path), f"{remote}{TEMPORARY_SUFFIX}")
            storage.mv(f"{remote}{TEMPORARY_SUFFIX}", remote)


@contextlib.contextmanager
def _storage(url: str, missing: str = "no such file") -> Iterator[tuple[Any, str]]:
    """Yield the storage of a URL and the path in it. Errors name the URL."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{url}: needs fsspec; run `pip install fsspec`") from None
    try:
        storage, path = fsspec.core.url_to_fs(url)
    except Exception as error:  # each kind of storage has its own
        raise UsageError(f"{url}: {_first_line(error)}") from None
    try:
        yield storage, path
    except NMTError:
        raise
    except FileNotFoundError:
        raise DataError(f"{url}: {missing}") from None
    except Exception as error:  # each kind of storage has its own
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise NMTError(f"{url}: {type(error).__name__}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
