"""The project's GPU tests, and those of the device itself, on the pretended GPU."""

import subprocess
import sys
from pathlib import Path

import pytest
from pretended_gpu.build import NotHere, environment

TESTS = Path(__file__).parents[1]
OWN = ("on_device.py", "search_on_device.py", "update_on_device.py")
FILES = ("test_gpu.py", "cli/test_gpu_commands.py", *(f"pretended_gpu/{name}" for name in OWN))
LONG = "learns or course or resumed or low_rank or fits or c_compiler or rescore or goes_on"
QUICK = f"not ({LONG}) or course and (rnn or deep)"


@pytest.mark.parametrize(
    "chosen", [QUICK, pytest.param("", marks=pytest.mark.slow)], ids=["quick", "all"]
)
def test_all_tests_of_these_files_pass(chosen: str, tmp_path: Path) -> None:
    """Torch takes a device only while it is loaded, so they run in a process of their own."""
    try:
        has_device = environment()
    except NotHere as why:
        pytest.skip(str(why))
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-k", chosen]
    done = subprocess.run(
        [*command, "--basetemp", str(tmp_path / "t"), *(str(TESTS / file) for file in FILES)],
        cwd=TESTS.parent,
        env=has_device,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
