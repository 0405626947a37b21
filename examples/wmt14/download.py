#!/usr/bin/env python3
"""Fetch an archive of WMT14: from the first address that has it, and going on where it broke off.

What has come so far stands in `NAME.partial`. It becomes `NAME` when its size and its checksum are
those of the catalogue. The SHA-256 of the first download is written to `NAME.sha256`, in the form
of `sha256sum -c`, and every later one must have the same, also where no checksum was published.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from catalogue import Archive, read_catalogue

from nmt import console
from nmt.cli.command import run
from nmt.errors import NMTError
from nmt.files import check_room, megabytes, sync_folder, write_text
from nmt.translate.journal import open_locked

CHUNK = 1 << 20
TIMEOUT_SECONDS = 60
WAIT_SECONDS = 5
"""Before an address that broke off is asked again."""


def fetch(archive: Archive, folder: Path, mirror: str | None = None) -> None:
    """Bring an archive into a folder, whole and as it was published, or not at all.

    Args:
        archive: which.
        folder: where to.
        mirror: a folder, or the address of one, to take it from instead of its own addresses.

    Raises:
        NMTError: no address has it, or what they have is not it.
        Stopped: another process is fetching it.
    """
    target, partial = folder / archive.name, folder / f"{archive.name}.partial"
    addresses = [f"{mirror.rstrip('/')}/{archive.name}"] if mirror else archive.addresses
    failures = []
    with open_locked(partial, partial) as file:
        for address in addresses:
            try:
                _copy_all(address, file, archive)
            except (OSError, http.client.HTTPException) as error:
                failures.append(f"{address}: {_reason(error)}")
                continue
            sha256, wrong = _examine(file, archive, folder)
            if wrong:
                file.truncate(0)  # some of it may have come from an earlier address
                failures.append(f"{address}: {wrong}")
                continue
            os.fsync(file.fileno())
            write_text(_lock_file(archive, folder), f"{sha256}  {archive.name}\n")
            os.replace(partial, target)
            sync_folder(folder)
            return
        if not _size(file):
            partial.unlink()
    raise NMTError(
        f"{archive.name} could not be fetched ({'; '.join(failures) or 'it has no address'}); run "
        "the same command again, or put the file into a folder and name that: MIRROR=FOLDER"
    )


def _copy_all(address: str, file: BinaryIO, archive: Archive) -> None:
    """Append what is missing of a file, as long as the address goes on delivering."""
    if "://" not in address:
        with Path(address).open("rb") as source:
            file.truncate(0)
            _append(source, file, archive.name, Path(address).stat().st_size)
        return
    while True:
        before = _size(file)
        if before and before == archive.size:
            return  # a run that was killed had all of it
        try:
            if _copy_rest(address, file, archive):
                return
            failure = "the connection broke off"
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException) as error:
            failure = _reason(error)
        if _size(file) == before:
            raise ConnectionError(failure)
        console.warning(f"{address}: {failure} after {megabytes(_size(file))}; asking again")
        time.sleep(WAIT_SECONDS)


def _copy_rest(address: str, file: BinaryIO, archive: Archive) -> bool:
    """Append what an address has behind what is there; tell whether that was all."""
    there = _size(file)
    request = urllib.request.Request(address)
    if there:
        request.add_header("Range", f"bytes={there}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        # Nothing stands behind it: it is complete, or it is of another file, and too long.
        if error.headers.get("Content-Range", "").endswith(f"/{there}"):
            return True
        file.truncate(0)
        return False
    with response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            there = file.truncate(0)  # it knows no ranges, and sends all
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {there}-"):
            raise ConnectionError(f"does not send what stands behind byte {there}")
        length = response.headers.get("Content-Length")
        total = there + int(length) if length else archive.size
        _append(response, file, archive.name, total)
    return total is None or _size(file) >= total


def _append(
    source: BinaryIO | http.client.HTTPResponse, file: BinaryIO, name: str, total: int | None
) -> None:
    there = _size(file)
    size = f", {megabytes(total - there)}" if total else ""
    console.notice(f"fetching {'the rest of ' if there else ''}{name}{size}")
    if total:
        check_room(Path(file.name), total - there)
    with console.Progress(name, total=total, unit="B", initial=there) as bar:
        while chunk := source.read(CHUNK):
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:  # of the disk, and no fault of the address
                raise NMTError(f"{file.name}: {error.strerror}; make room") from None
            bar.update(len(chunk))


def _size(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _examine(file: BinaryIO, archive: Archive, folder: Path) -> tuple[str, str]:
    """Return the file's SHA-256, and what is wrong with it: nothing, if all is well."""
    size = _size(file)
    if archive.size not in (None, size):
        return "", f"{size:,} bytes, and {archive.source} says {archive.size:,}"
    digests = {name: hashlib.new(name) for name in {"sha256", *archive.checksums}}
    file.seek(0)
    while chunk := file.read(CHUNK):
        for digest in digests.values():
            digest.update(chunk)
    for name, published in archive.checksums.items():
        if digests[name].hexdigest() != published:
            found = digests[name].hexdigest()
            return "", f"its {name} is {found}, and {archive.source} says {published}"
    sha256, recorded = digests["sha256"].hexdigest(), _lock_file(archive, folder)
    with suppress(FileNotFoundError):
        first = recorded.read_text(encoding="utf-8").split()[0]
        if first != sha256:
            return "", (
                f"its sha256 is {sha256}, and the first download's was {first}; if it has changed "
                f"for good, remove {recorded}"
            )
    return sha256, ""


def _lock_file(archive: Archive, folder: Path) -> Path:
    return folder / f"{archive.name}.sha256"


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.reason}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(getattr(cause, "strerror", None) or cause)


def main() -> None:
    """Fetch what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="archive to fetch, such as dev.tgz")
    parser.add_argument("--catalogue", type=Path, required=True, help="wmt14.toml")
    parser.add_argument("--out", type=Path, required=True, help="folder to bring it into")
    parser.add_argument("--mirror", help="folder, or its address, to take it from")
    options = parser.parse_args()
    archive = read_catalogue(options.catalogue).archive(options.name)
    options.out.mkdir(parents=True, exist_ok=True)
    fetch(archive, options.out, options.mirror)


if __name__ == "__main__":
    run(main)
