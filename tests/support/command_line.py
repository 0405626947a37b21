"""What tests of the command line share: how a command is run in this process, and its answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

QUICK = ("--workers", "1", "--threads", "1", "--beam-size", "2", "--max-extra-tokens", "3")
"""Options by which `nmt translate` takes a moment with the tiny model."""
_SET = ("--set", "matmul=torch", "--set", "sample_translations=1")
QUICK_TRAINING = ("--precision", "fp32", *_SET)
"""Options by which `nmt train` measures no library and translates one valid line."""


Stderr = Callable[[], str]
"""Returns what was written to stderr since the last call."""


def write(path: Path, lines: Iterable[str]) -> Path:
    """Write lines of text, and return the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


class Answer(NamedTuple):
    status: int
    stdout: str
    stderr: str

    def succeeded(self) -> Answer:
        """This answer, which must be that of a command that did not fail."""
        assert self.status == 0, self.stderr
        return self

    def refusal(self, status: int) -> str:
        """The one line of a command that fails with this status."""
        assert (self.status, self.stdout) == (status, ""), self.stderr
        (line,) = self.stderr.splitlines()
        assert line.startswith("nmt: error: ")
        return line

    @property
    def summary(self) -> dict[str, Any]:
        """The last line of `nmt translate` on stderr."""
        found: dict[str, Any] = json.loads(self.stderr.splitlines()[-1])
        return found


class Nmt(Protocol):
    """Runs a command with these words and returns what it answers."""

    def __call__(self, *words: str | Path, stdin: bytes | None = None) -> Answer: ...


class TranslateText(Protocol):
    """Runs `nmt translate --input FILE` on a file with this text, by one worker."""

    def __call__(self, text: str | bytes, *words: str | Path) -> Answer: ...
