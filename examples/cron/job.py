"""A file that is being translated, in a folder of its own, and its ways out of there.

working/NAME/source/NAME is the file, working/NAME/translation/NAME its translation once that is
complete (`nmt translate` keeps its journal beside it), working/NAME/reason.txt has a line for each
attempt that failed. Every way is by renaming, and nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """A file that has been taken."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def source(self) -> Path:
        return self.folder / "source" / self.name

    @property
    def translation(self) -> Path:
        return self.folder / "translation" / self.name

    @property
    def has_source(self) -> bool:
        return os.path.lexists(self.source)

    @property
    def is_regular(self) -> bool:
        """Whether it is a file, and no folder, pipe or link."""
        return stat.S_ISREG(self.source.lstat().st_mode)

    def fingerprint(self) -> tuple[int, int]:
        """Return what changes when somebody writes to the source."""
        status = self.source.stat()
        return status.st_size, status.st_mtime_ns

    def take(self, path: Path) -> bool:
        """Move a file here; tell whether it was still there."""
        self.source.parent.mkdir(parents=True)
        self.translation.parent.mkdir()
        try:
            path.rename(self.source)
        except OSError as error:
            shutil.rmtree(self.folder)
            if isinstance(error, FileNotFoundError):
                return False
            raise
        return True

    def failures(self) -> int:
        """Return how many attempts have failed."""
        return self._reason.read_bytes().count(b"\n") if self._reason.exists() else 0

    def note_failure(self, why: str) -> None:
        """Write down why an attempt has failed."""
        with self._reason.open("a", encoding="utf-8") as file:
            file.write(f"{why}\n")

    def give_up(self, failed: Path) -> Path:
        """Move all of it there, in one step; return where it is."""
        return self.folder.rename(_free(failed, self.name))

    def deliver(self, done: Path, outgoing: Path) -> list[Path]:
        """Move source and translation there; return where they are.

        The source goes first. If the process is killed behind that, what is left is a translation
        without a source, which wants nothing more than to be moved: it is never delivered twice.
        """
        places = []
        if self.has_source:
            places.append(self.source.rename(_free(done, self.name)))
        if self.translation.exists():
            places.append(self.translation.rename(_free(outgoing, self.name)))
        self._remove()
        return places

    def _remove(self) -> None:
        """Remove what is ours and no more: a source under another name is somebody's only one."""
        with contextlib.suppress(FileNotFoundError):
            self.source.parent.rmdir()
        shutil.rmtree(self.translation.parent, ignore_errors=True)
        self._reason.unlink(missing_ok=True)
        self.folder.rmdir()

    @property
    def _reason(self) -> Path:
        return self.folder / "reason.txt"


def _free(folder: Path, name: str) -> Path:
    """Return where a file of this name can go: news.en.gz, or news.2.en.gz, and so on."""
    stem, dot, ends = name.partition(".")
    numbered = (f"{stem}.{number}{dot}{ends}" for number in itertools.count(2))
    places = (folder / one for one in itertools.chain([name], numbered))
    return next(place for place in places if not os.path.lexists(place))
