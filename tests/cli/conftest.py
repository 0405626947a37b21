"""`nmt translate` with the tiny model, inside this process, and a storage at URLs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
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
def python_with(tmp_path: Path) -> Callable[[str], Path]:
    """Makes an environment with a package beside all that is installed here; returns its Python."""

    def make(package: str) -> Path:
        python = tmp_path / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        found = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            check=True,
            text=True,
        )
        Path(found.stdout.strip(), "ours.pth").write_text(sysconfig.get_path("purelib"))
        installing = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", package],
            capture_output=True,
            check=False,
            text=True,
        )
        if installing.returncode:
            pytest.skip(
                f"needs {package}, which cannot be installed: {installing.stderr.strip()[-200:]}"
            )
        return python

    return make


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage at URLs, beside which this machine keeps its copies in `cache`."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    return Storage(cache)
