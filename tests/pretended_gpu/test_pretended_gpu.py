"""The project's GPU tests, and those of the device itself, on the pretended GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pretended_gpu.build import NotHere, environment

TESTS = Path(__file__).parents[1]


FILES = {
    "values": (
        *("test_gpu.py", "cli/test_gpu_commands.py"),
        *("pretended_gpu/on_device.py", "pretended_gpu/search_on_device.py"),
    ),
    "fake tensors": ("pretended_gpu/on_fake_tensors.py",),
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_all_tests_of_these_files_pass(files: Sequence[str], tmp_path: Path) -> None:
    """Torch takes a device only while it is loaded, so they run in processes of their own."""
    try:
        has_device = environment()
    except NotHere as why:
        pytest.skip(str(why))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "--basetemp",
        str(tmp_path / "t"),
    ]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *(str(TESTS / file) for file in files)],
        cwd=TESTS.parent,
        env=has_device,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
