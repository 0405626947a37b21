"""Environments with other packages."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest


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
