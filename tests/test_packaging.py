"""What is built for an index: it installs, and nothing is missing."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_and_the_source_install_and_run(tmp_path: Path) -> None:
    listed = run("git", "ls-files", "-z", "nmt", cwd=ROOT).split("\0")
    modules = {name for name in listed if name.endswith((".py", "py.typed"))}
    # From a copy, since a build writes into the folder of its source.
    source = tmp_path / "source"
    run("git", "clone", "--quiet", "--no-local", ROOT, source, cwd=tmp_path)
    built = tmp_path / "built"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, source, cwd=tmp_path)
    (wheel,), (archive,) = built.glob("*.whl"), built.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive, cwd=tmp_path)
    assert modules <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    assert modules | {"LICENSE", "README.md"} <= names

    # The environment sees torch and the others, but no nmt besides the wheel's.
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    own = run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    others = [path for path in sys.path if path.endswith("-packages")]
    (Path(own) / "others.pth").write_text("\n".join(others), encoding="utf-8")
    where = run(python, "-c", "import nmt; print(nmt.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(own)
    nmt = python.with_name("nmt")
    assert "transformer_base" in run(nmt, "models", cwd=tmp_path)
    assert "0." in run(nmt, "--version", cwd=tmp_path)
