"""A program under a warm Python finds what it finds under Python, and ends in the same way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from warm_python import warm_python

PROGRAM = """
import json, os, signal, sys
print(json.dumps({
    "name": __name__,
    "arguments": sys.argv[1:],
    "paths": sys.path[:2],
    "variable": os.environ["VARIABLE"],
    "folder": os.getcwd(),
    "umask": os.umask(0),
    "open": [number for number in range(50) if os.path.exists(f"/dev/fd/{number}")],
    "ignored": [n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_IGN],
    "default": [n for n in range(1, 32) if signal.getsignal(n) == signal.SIG_DFL],
    "read": sys.stdin.read(),
}))
print("said", file=sys.stderr)
"""


def finish(python: str, *words: str | Path, **options: Any) -> tuple[int, str, str]:
    done = subprocess.run(
        [python, *words], capture_output=True, text=True, check=False, timeout=60, **options
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("form", ["SCRIPT", "-m", "-c"])
def test_a_program_finds_the_same(form: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    given = {"SCRIPT": ["program.py"], "-m": ["-m", "program"], "-c": ["-c", PROGRAM]}[form]

    def run(python: str) -> tuple[int, Any, str]:
        status, out, err = finish(
            *("sh", "-c", 'trap "" HUP; umask 27; exec "$@"', "sh"),
            *(python, "-u", *given, "a word", ""),
            input="text\n",
            cwd=tmp_path,
            env=os.environ | {"VARIABLE": "value", "PYTHONPATH": str(tmp_path / "more")},
        )
        return status, json.loads(out), err

    expected = run(sys.executable)
    assert (expected[0], expected[2]) == (0, "said\n")
    assert run(warm_python()) == expected


@pytest.mark.parametrize(
    "code",
    [
        "sys.exit(3)",
        "raise ValueError('said')",
        "atexit.register(print, 'at the end')",
        *(f"os.kill(os.getpid(), signal.{name})" for name in ("SIGKILL", "SIGTERM", "SIGSEGV")),
    ],
)
def test_a_program_ends_the_same(code: str) -> None:
    code = f"import atexit, os, signal, sys; print('began', flush=True); {code}"
    expected, found = (finish(python, "-c", code) for python in (sys.executable, warm_python()))
    assert found[:2] == expected[:2]
    assert found[2].splitlines()[-1:] == expected[2].splitlines()[-1:]
