"""Inputs and outputs at URLs: copied to this machine before a job, and back after it.

A job reads and writes files of this machine. What it reads at a URL is copied to a temporary
folder. What it writes to a URL is made in a folder that belongs to the URL, under ~/.cache/nmt, and
stays there until it is complete. So a job that was killed continues on the same machine. Its
journal is uploaded, too, so that a finished job ends at once on any machine.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from nmt.errors import UsageError
from nmt.jobs.journal import journal_of
from nmt.system import remote


@contextlib.contextmanager
def local_inputs(inputs: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Copy the inputs that are at URLs, and yield the names of all here (UsageError, NMTError)."""
    with contextlib.ExitStack() as leaving:
        names = []
        for typed in inputs:
            if not remote.is_url(typed):
                names.append(remote.without_scheme(typed))
                continue
            if not (urls := remote.files_at(typed)):
                raise UsageError(f"--input {typed}: no files found")
            folder = leaving.enter_context(tempfile.TemporaryDirectory(prefix="nmt-"))
            copies = [remote.mirrored(url, Path(folder)) for url in urls]
            for url, path in zip(urls, copies, strict=True):
                remote.download(url, path)
            names.append(str(copies[0] if urls == [typed] else copies[0].parent))
        yield tuple(names)


class RemoteOutput(NamedTuple):
    """The output of a job: a file at a URL, or files below one."""

    url: str
    path: Path  # of this machine, where it is made

    @classmethod
    def made_for(cls, url: str, inputs: Sequence[str]) -> Self:
        """Make the folder for a URL (NMTError), which must not replace an input (UsageError)."""
        for typed in inputs:
            if url == typed or url.rstrip("/") == typed.rpartition("/")[0]:
                raise UsageError(f"{url}: the output would replace the input {typed}")
        remote.exists(url)  # fails before any work is done
        path = remote.cached(url)
        (path if url.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        return cls(url, path)

    @contextlib.contextmanager
    def synced(self, output: Path) -> Iterator[None]:
        """Get what an earlier job finished, and upload the output after the block (NMTError)."""
        journal, before = journal_of(output), b""
        if not journal.exists() and remote.exists(self._url_of(journal)):
            for path in (output, journal):
                if remote.exists(self._url_of(path)):
                    remote.download(self._url_of(path), path)
            before = journal.read_bytes()
        elif self.path.is_dir() and not journal.exists() and remote.exists(self._url_of(output)):
            remote.download(self._url_of(output), output)  # somebody else's
        yield
        if journal.exists() and journal.read_bytes() != before:
            for path in (output, journal):
                for folder in reversed(path.parents):
                    if self.path in folder.parents:
                        remote.make_folder(self._url_of(folder))
                remote.upload(path, self._url_of(path))
        output.unlink()
        journal.unlink(missing_ok=True)

    def move(self, output: Path) -> None:
        """Upload a file without a journal, and remove it here; NMTError if that fails."""
        remote.upload(output, self._url_of(output))
        output.unlink()

    def _url_of(self, path: Path) -> str:
        above, _, name = self.url.rstrip("/").rpartition("/")
        here = str(path.relative_to(self.path.parent))
        return f"{above}/{here.replace(self.path.name, name, 1)}"  # which may have a query
