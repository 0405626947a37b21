"""`nmt translate` with the tiny model, inside this process, and a storage at URLs."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import QUICK, Answer, Nmt, TranslateText
from storage import Storage


@pytest.fixture
def translate(nmt: Nmt, model_file: Path) -> Nmt:
    """Runs `nmt translate` with the tiny model, by one worker."""

    def run(*words: str | Path, stdin: bytes | None = None) -> Answer:
        return nmt("translate", model_file, *QUICK, "--summary", *words, stdin=stdin)

    return run


@pytest.fixture
def translate_text(translate: Nmt, tmp_path: Path) -> TranslateText:
    def run(text: str | bytes, *words: str | Path) -> Answer:
        source = tmp_path / "in"
        source.write_bytes(text.encode() if isinstance(text, str) else text)
        return translate("--input", source, *words)

    return run


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage at URLs, beside which this machine keeps its copies in `cache`."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    return Storage(cache)
