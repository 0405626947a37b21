"""The command line inside this process: as `python -m nmt`, less the second of starting torch."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from nmt.cli import main


class Answer(NamedTuple):
    status: int
    stdout: str
    stderr: str


class Nmt(Protocol):
    """Runs `nmt WORDS...` and returns what it answers."""

    def __call__(self, *words: str | Path, stdin: bytes | None = None) -> Answer: ...


@pytest.fixture
def nmt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Nmt]:
    numbers = signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        monkeypatch.setattr(sys, "argv", ["nmt", *map(str, words)])
        if stdin is not None:  # no more than a pipe holds
            reading, writing = os.pipe()
            os.write(writing, stdin)
            os.close(writing)
            monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
        with pytest.raises(SystemExit) as caught:
            main()
        assert isinstance(caught.value.code, int)
        return Answer(caught.value.code, *capsys.readouterr())

    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class TranslateText(Protocol):
    """Runs `nmt translate --input FILE` on a file with this text, by one worker."""

    def __call__(self, text: str | bytes, *words: str | Path) -> Answer: ...


@pytest.fixture
def translate_text(nmt: Nmt, model_file: Path, tmp_path: Path) -> TranslateText:
    def run(text: str | bytes, *words: str | Path) -> Answer:
        source = tmp_path / "in"
        source.write_bytes(text.encode() if isinstance(text, str) else text)
        quick = ("--threads", "1", "--workers", "1", "--beam-size", "2", "--max-extra-tokens", "3")
        return nmt("translate", model_file, "--input", source, *quick, *words)

    return run
