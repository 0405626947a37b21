"""Faults that are planted into a copy of nmt: the tests that are named must find each of them.

`planted_faults.txt` lists them. To add one, write there its name, the arguments of pytest that find
it, the right text and the wrong one. The right text is looked for in all of nmt, so that it may
move to another file; if it is gone, or is there twice, a test of every day says so.

`pytest -m slow -n 2 tests/test_planted_faults.py` plants them all. Its last lines name those that
were not found.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pretended_gpu import build
from warm_python import warm_python

ROOT = Path(__file__).parents[1]


class Fault(NamedTuple):
    """A change of `nmt`, and the tests that find it."""

    tests: str  # arguments of pytest: a file below tests, and perhaps -k
    right: str  # what stands in one place of nmt
    wrong: str


def read_faults() -> dict[str, Fault]:
    """Return the faults that the list holds, by name."""
    text = (Path(__file__).parent / "planted_faults.txt").read_text(encoding="utf-8")
    entries = re.findall(r"^(\w.*): (.*)\n- (.*)\n\+ (.*)\n", text, re.MULTILINE)
    assert len(entries) == text.count("\n- "), "an entry is not NAME: TESTS, - RIGHT, + WRONG"
    faults = {name: Fault(*entry) for name, *entry in entries}
    assert len(faults) == len(entries), "two faults have one name"
    return faults


FAULTS = read_faults()


@functools.cache
def sources() -> dict[Path, str]:
    """Return the texts of nmt, by path."""
    paths = (ROOT / "nmt").rglob("*.py")
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in paths}


def places_of(fault: Fault) -> list[Path]:
    """Return the files in which the right text stands, as often as it stands there."""
    return [path for path, text in sources().items() for _ in range(text.count(fault.right))]


def run_tests(tests: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy in a folder until one fails."""
    file, *only = shlex.split(tests)
    python, environment = warm_python(), os.environ | {"PYTHONPATH": str(folder)}
    if file.endswith(("test_gpu.py", "_on_device.py")):
        try:  # torch takes the pretended GPU as it is loaded
            environment, built = build.environment(), build.build().parent
        except build.NotHere as why:
            pytest.skip(str(why))
        python = sys.executable
        link = folder / "tests/support/pretended_gpu/built"
        if not link.exists():  # at the first of two runs
            link.symlink_to(built)
        environment["PYTHONPATH"] = f"{folder}:{environment['PYTHONPATH']}"
    # Or what tests share would stay between runs, and be that of another version, or of a fault.
    environment.pop("PYTEST_XDIST_WORKER", None)
    # Text of the same size, written in the same second, would be run as it was compiled before.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [python, "-m", "pytest", "-q", "-x", f"tests/{file}", *only, *options]
    said: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=folder, env=environment, timeout=300, check=False, **said)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with a copy of nmt and its tests, beside links to all else."""
    copy = tmp_path / "copy"
    for part in ("nmt", "tests"):
        # Compiled files come along: they name the time of their source, which the copy keeps.
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("built"))
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and not (copy / path.name).exists():
            (copy / path.name).symlink_to(path)
    return copy


def test_each_fault_has_one_place_and_its_tests() -> None:
    places = {name: places_of(fault) for name, fault in FAULTS.items()}
    astray = {name: found for name, found in places.items() if len(found) != 1}
    assert not astray, "the right text must stand in nmt once: plant these faults anew"
    files = {fault.tests.split()[0] for fault in FAULTS.values()}
    assert not [file for file in sorted(files) if not (ROOT / "tests" / file).is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_each_fault_is_found(fault: Fault, copy: Path) -> None:
    (place,) = places_of(fault)
    path, right = copy / place, sources()[place]
    path.write_text(right.replace(fault.right, fault.wrong), encoding="utf-8")
    done = run_tests(fault.tests, copy)
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout
    path.write_text(right, encoding="utf-8")
    # Or Python takes the bytecode of the wrong version, if it has this size and is of this second.
    later = path.stat().st_mtime + 2
    os.utime(path, (later, later))
    done = run_tests(fault.tests, copy, "--last-failed")
    assert done.returncode == 0, f"it fails without the fault, too:\n{done.stdout}"
