"""A call in a process of its own, for libraries that read settings of the user, or may crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nmt.errors import NMTError

_CALL = """
import json, pkgutil, sys
sys.path, function, values = json.load(sys.stdin)
json.dump(pkgutil.resolve_name(function)(*values), sys.stdout)
"""
_LONGEST = 600  # seconds
_QUIET = {"PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
"""Variables of the process: nothing of the current folder, no warnings, and no threads, which take
memory."""


def in_own_process(
    failure: str, function: Callable[..., Any], *values: Any, **environment: str
) -> Any:
    """Return what a function of a module returns in a new process, whose folder is `/`.

    failure: how the message of an NMTError begins, if the process raises, is killed, or takes long.
    values: as JSON can hold them, like what is returned.
    environment: variables that differ from this process's.
    """
    path = [str(Path(folder).absolute()) for folder in sys.path]
    try:
        done = subprocess.run(
            [os.environ.get("PYTHON_EXEC", sys.executable), "-c", _CALL],
            input=json.dumps([path, full_name(function), values]).encode(),
            capture_output=True,
            cwd="/",
            env=os.environ | _QUIET | environment,
            start_new_session=True,  # Ctrl-C is for this process, which may finish its work
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NMTError(f"{failure}: it took longer than {_LONGEST} seconds") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() if done.returncode > 0 else []
        raise NMTError(f"{failure}: {lines[-1] if lines else f'ended by {done.returncode}'}")
    return json.loads(done.stdout)


def full_name(function: Callable[..., Any]) -> str:
    """Return what `pkgutil.resolve_name` finds a function by."""
    return f"{function.__module__}:{function.__qualname__}"
