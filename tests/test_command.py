"""How a script beside a recipe ends: by a signal, and for lack of a file."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("main", "status", "said"),
    [
        (
            "os.kill(os.getpid(), signal.SIGTERM)",
            75,
            "warning: stopped; run the same command again",
        ),
        ("os.kill(os.getpid(), signal.SIGHUP)", 75, "warning: stopped; run the same command again"),
        ("open('/nowhere/text')", 1, "error: /nowhere/text: No such file or directory"),
        ("None", 0, None),
    ],
)
def test_a_script_ends_with_a_status_and_a_line(main: str, status: int, said: str | None) -> None:
    script = f"import os, signal; from nmt.command import run; run(lambda: {main})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert done.stderr == (f"nmt: {said}\n" if said else "")
