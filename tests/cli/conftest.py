"""Environments with other packages, and a storage at URLs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from storage import Storage


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
