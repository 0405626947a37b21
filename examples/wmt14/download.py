#!/usr/bin/env python3
"""Fetch an archive of a catalogue with curl, from the first address that has it.

curl writes to `NAME.partial` and continues there after an interruption. The file becomes `NAME` if
its size and checksum are those of the catalogue. The SHA-256 of the first download is written to
`NAME.sha256`, for `sha256sum -c`. Later downloads must have the same, also if no checksum was
published.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from catalogue import Archive, read_catalogue

from nmt import console
from nmt.cli.command import run
from nmt.errors import NMTError
from nmt.jobs.journal import open_locked
from nmt.system.files import megabytes, sync_folder, write_text

CURL = (
    "curl --fail --location --continue-at - --write-out %{errormsg} "
    "--connect-timeout 60 --speed-limit 1 --speed-time 60"
).split()
CANNOT_RESUME = (33, 36)
"""curl's exit statuses if an address knows no ranges, or has fewer bytes than there are. Web
servers answer the latter with the HTTP status 416."""
WAIT_SECONDS = 5
"""Before trying again after a broken connection."""


def fetch(archive: Archive, folder: Path, mirror: str | None = None) -> None:
    """Download an archive to a folder, complete and as it was published, or not at all.

    archive: which.
    folder: where to.
    mirror: a folder, or the address of one, to take it from instead of its own addresses.
    NMTError if no address has it, or its content is wrong. Stopped if another process is fetching
    it.
    """
    if mirror and "://" not in mirror:
        mirror = Path(mirror).resolve().as_uri()
    addresses = [f"{mirror.rstrip('/')}/{archive.name}"] if mirror else archive.addresses
    target, partial = folder / archive.name, folder / f"{archive.name}.partial"
    recorded = folder / f"{archive.name}.sha256"
    failures = []
    with open_locked(partial, partial) as file:
        for address in addresses:
            is_complete = partial.stat().st_size == archive.size  # a killed run had all of it
            if not is_complete and (failure := _download(address, partial)):
                failures.append(f"{address}: {failure}")
                continue
            sha256, wrong = _examine(partial, archive, recorded)
            if wrong:
                os.truncate(partial, 0)  # part of it may have come from an earlier address
                failures.append(f"{address}: {wrong}")
                continue
            os.fsync(file.fileno())
            write_text(recorded, f"{sha256}  {archive.name}\n")
            os.replace(partial, target)
            sync_folder(folder)
            return
        if not partial.stat().st_size:
            partial.unlink()
    raise NMTError(
        f"{archive.name} could not be fetched ({'; '.join(failures) or 'it has no address'}); run "
        "the same command again, or put the file into a folder and name that: MIRROR=FOLDER"
    )


def _download(address: str, partial: Path) -> str:
    """Append the rest of a file, as long as the address delivers; return what failed, if any."""
    console.notice(f"fetching {address}")
    progress = ("--progress-bar",) if sys.stderr.isatty() else ("--silent",)
    while True:
        before = partial.stat().st_size
        command = [*CURL, *progress, "--output", str(partial), address]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        except FileNotFoundError:
            raise NMTError("curl is not installed; install it, or set MIRROR=FOLDER") from None
        size = partial.stat().st_size
        if not done.returncode:
            return ""
        if before and (done.returncode in CANNOT_RESUME or done.stdout.endswith(" 416")):
            os.truncate(partial, 0)
        elif size == before:
            return done.stdout or f"curl ended with status {done.returncode}"
        else:
            console.warning(f"{address}: {done.stdout} after {megabytes(size)}; trying again")
            time.sleep(WAIT_SECONDS)


def _examine(partial: Path, archive: Archive, recorded: Path) -> tuple[str, str]:
    """Return the file's SHA-256, and what is wrong with the file, if anything."""
    size = partial.stat().st_size
    if archive.size not in (None, size):
        return "", f"{size:,} bytes, and {archive.source} says {archive.size:,}"
    digests = {}
    for name in {"sha256", *archive.checksums}:
        with partial.open("rb") as file:
            digests[name] = hashlib.file_digest(file, name).hexdigest()
    for name, published in archive.checksums.items():
        if digests[name] != published:
            return "", f"its {name} is {digests[name]}, and {archive.source} says {published}"
    sha256 = digests["sha256"]
    with suppress(FileNotFoundError):
        first = recorded.read_text(encoding="utf-8").split()[0]
        if first != sha256:
            return "", (
                f"its sha256 is {sha256}, and the first download's was {first}; if it has changed "
                f"for good, remove {recorded}"
            )
    return sha256, ""


def main() -> None:
    """Fetch the archive that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="archive to fetch, such as dev.tgz")
    parser.add_argument("--catalogue", type=Path, required=True, help="wmt14.toml")
    parser.add_argument("--out", type=Path, required=True, help="folder for the archive")
    parser.add_argument("--mirror", help="folder, or its address, to take it from")
    options = parser.parse_args()
    archive = read_catalogue(options.catalogue).archive(options.name)
    options.out.mkdir(parents=True, exist_ok=True)
    fetch(archive, options.out, options.mirror)


if __name__ == "__main__":
    run(main)
