"""Environments with other packages."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = "@browsermt/bergamot-translator"


@pytest.fixture
def python_with(tmp_path: Path) -> Callable[[str], Path]:
    """Makes an environment with a package beside all that is installed here; returns its Python."""

    def make(package: str) -> Path:
        python = tmp_path / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        found = subprocess.run([python, "-c", where], capture_output=True, check=True, text=True)
        Path(found.stdout.strip(), "ours.pth").write_text(sysconfig.get_path("purelib"))
        command: list[str | Path] = [python, "-m", "pip", "install", "--quiet", package]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode:
            pytest.skip(f"needs {package}: it cannot be installed: {done.stderr.strip()[-200:]}")
        return python

    return make


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm packages."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = tmp_path_factory.mktemp("npm")
    packages = (f"{PACKAGE}@0.4.9", "playwright-core@1")
    command = ["npm", "install", "--no-save", "--no-audit", "--prefix", str(folder), *packages]
    if (done := subprocess.run(command, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"needs npm's registry: {done.stderr.strip()[-200:]}")
    # In Node its worker is read as a module, because the package says so, and is none.
    (folder / "node_modules" / PACKAGE / "worker" / "package.json").write_text("{}")
    return folder
