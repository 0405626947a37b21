"""A file that is being translated: its folder, and where it goes from there.

working/NAME/source/NAME is the file. working/NAME/translation/NAME is its translation when it is
complete, and `nmt translate` keeps its journal beside it. working/NAME/reason.txt has a line for
each failed attempt. Every move is one rename, and nothing is ever overwritten.
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
        """Whether it is a file, and not a folder, pipe or link."""
        return stat.S_ISREG(self.source.lstat().st_mode)

    def fingerprint(self) -> tuple[int, int]:
        """Return size and time, which change when somebody writes to the source."""
        status = self.source.stat()
        return status.st_size, status.st_mtime_ns

    def take(self, path: Path) -> bool:
        """Move a file here; return whether it was still there."""
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
        """Record why an attempt failed."""
        with self._reason.open("a", encoding="utf-8") as file:
            file.write(f"{why}\n")

    def give_up(self, failed: Path) -> Path:
        """Move the whole folder, and return where it is now."""
        return self.folder.rename(_free(failed, self.name))

    def deliver(self, done: Path, outgoing: Path) -> list[Path]:
        """Move source and translation, and return where they are now.

        The source goes first. If the process is killed after that, a translation without a source
        is left. The next run only moves it, so it is never delivered twice.
        """
        places = []
        if self.has_source:
            places.append(self.source.rename(_free(done, self.name)))
        if self.translation.exists():
            places.append(self.translation.rename(_free(outgoing, self.name)))
        self._remove()
        return places

    def _remove(self) -> None:
        """Remove only our own files: a renamed source may be somebody's only copy."""
        with contextlib.suppress(FileNotFoundError):
            self.source.parent.rmdir()
        shutil.rmtree(self.translation.parent, ignore_errors=True)
        self._reason.unlink(missing_ok=True)
        self.folder.rmdir()

    @property
    def _reason(self) -> Path:
        return self.folder / "reason.txt"


def _free(folder: Path, name: str) -> Path:
    """Return a free name for a file: news.en.gz, or news.2.en.gz, and so on."""
    stem, dot, ends = name.partition(".")
    numbered = (f"{stem}.{number}{dot}{ends}" for number in itertools.count(2))
    places = (folder / one for one in itertools.chain([name], numbered))
    return next(place for place in places if not os.path.lexists(place))
