"""The command line inside this process: as `python -m nmt`, less the second of starting torch."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from nmt.cli import main


class Answer(NamedTuple):
    status: int
    stdout: str
    stderr: str


@pytest.fixture
def nmt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Answer]]:
    """Run `nmt WORDS...` and return what it answers."""
    numbers = signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]

    def run(*words: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["nmt", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        assert isinstance(caught.value.code, int)
        return Answer(caught.value.code, *capsys.readouterr())

    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
