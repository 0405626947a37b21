"""The command line inside this process: as `python -m nmt`, less the seconds of starting torch."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import QUICK, Answer, Nmt, TranslateText

from nmt.cli import main


@pytest.fixture
def nmt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Nmt]:
    numbers = signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as caught:
            patch.setattr(sys, "argv", ["nmt", *map(str, words)])
            if stdin is not None:  # no more than a pipe holds
                reading, writing = os.pipe()
                os.write(writing, stdin)
                os.close(writing)
                patch.setattr(sys, "stdin", os.fdopen(reading))
            main()
        assert isinstance(caught.value.code, int)
        return Answer(caught.value.code, *capsys.readouterr())

    yield run
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def translate(nmt: Nmt, model_file: Path) -> Nmt:
    """Runs `nmt translate` with the tiny model, by one worker."""

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        return nmt("translate", model_file, *QUICK, *words, stdin=stdin)

    return run


@pytest.fixture
def translate_text(translate: Nmt, tmp_path: Path) -> TranslateText:
    def run(text: str | bytes, *words: str | Path) -> Answer:
        source = tmp_path / "in"
        source.write_bytes(text.encode() if isinstance(text, str) else text)
        return translate("--input", source, *words)

    return run
