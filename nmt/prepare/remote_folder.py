"""A data folder at a URL: made on this machine, and uploaded when it is complete."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from nmt import console
from nmt.data.manifest import FILE_NAME
from nmt.errors import UsageError
from nmt.system import remote


@contextlib.contextmanager
def made_for(out: str) -> Iterator[Path]:
    """Yield the path where `out` is made: `out` itself, or for a URL a folder in the cache.

    A complete folder is uploaded after the block, `dataset.json` last, and removed here. One that
    is at the URL already is copied to this machine for the block, which compares it. UsageError if
    other files are at the URL. NMTError if it cannot be read or written.
    """
    if not remote.is_url(out):
        yield Path(remote.without_scheme(out))
        return
    url = out.rstrip("/")
    folder = remote.cached(url)
    remote.make_folder(url)  # fails before any work is done
    if remote.exists(f"{url}/{FILE_NAME}"):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            for file in remote.files_at(f"{url}/"):
                remote.download(file, folder / file.rpartition("/")[2])
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if not folder.exists() and remote.files_at(f"{url}/"):
        raise UsageError(f"{url} is not empty and not a data folder; choose another name")
    yield folder
    paths = sorted(folder.iterdir(), key=lambda path: (path.name == FILE_NAME, path.name))
    for path in paths:
        remote.upload(path, f"{url}/{path.name}")
    shutil.rmtree(folder)
    console.notice(f"{url}: uploaded {len(paths):,} files")
