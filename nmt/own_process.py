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
import importlib, json, sys
sys.path, module, name, values = json.load(sys.stdin)
json.dump(getattr(importlib.import_module(module), name)(*values), sys.stdout)
"""
_LONGEST = 600  # seconds


def in_own_process(function: Callable[..., Any], *values: Any, **environment: str) -> Any:
    """Return what a function of a module returns in a new process, whose folder is `/`.

    values: as JSON can hold them, like what is returned.
    environment: variables that differ from this process's.
    NMTError tells why, if the process raises, is killed, or takes too long.
    """
    path = [str(Path(folder).absolute()) for folder in sys.path]
    asked = json.dumps([path, function.__module__, function.__name__, values])
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-W", "ignore", "-c", _CALL],
            input=asked.encode(),
            capture_output=True,
            cwd="/",
            env=os.environ | environment,
            start_new_session=True,  # Ctrl-C is for this process, which may finish its work
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NMTError(f"took longer than {_LONGEST} seconds") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() if done.returncode > 0 else []
        raise NMTError(lines[-1] if lines else f"its process ended with {done.returncode}")
    return json.loads(done.stdout)
