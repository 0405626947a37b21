"""A call in a process of its own: for libraries that read settings of the user, or may crash, and
for what takes memory that this process would keep."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from nmt.errors import NMTError

T = TypeVar("T")

_CALL = """
import json, pkgutil, sys
sys.path, function, values = json.load(sys.stdin)
json.dump(pkgutil.resolve_name(function)(*values), sys.stdout)
"""
_LONGEST = 600  # seconds
_MOST_COPIES, _STARTS_WITHIN = 3, 10.0  # seconds
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


def in_a_copy(function: Callable[[], T]) -> T:
    """Return what a function returns in a copy of this process, which takes its memory along.

    If the copy fails, or hangs, this process calls the function, and has its errors.

    function: uses one thread, no GPU, and no stream; what it returns is small, and as JSON can
        hold it.
    """
    most = _MOST_COPIES if sys.platform == "linux" else 0  # elsewhere libraries may not survive it
    answers = (_answer_of_a_copy(function) for _ in range(most))
    answer = next((answer for answer in answers if answer is not None), None)
    return cast(T, json.loads(answer)) if answer else function()


def _answer_of_a_copy(function: Callable[[], Any]) -> bytes | None:
    """Return what a function returns in a copy, in JSON: nothing if it fails, None if none starts.

    A copy may hang in the fork itself: Python 3.11 waits there for the lock of its list of threads.
    Another thread held it, most likely one of gloo that just told Python of itself, and the copy
    has no such thread. The next copy hardly ever meets that again.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # That other threads of this process are not in the copy, which needs none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        copy = os.fork()
    if copy == 0:
        try:
            os.write(writing, b".")  # it has started
            # All or nothing: a pipe holds so little.
            os.write(writing, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        try:
            if not select.select([pipe], [], [], _STARTS_WITHIN)[0]:
                return None
            pipe.read(1)
            return pipe.read() if select.select([pipe], [], [], _LONGEST)[0] else b""
        finally:
            os.kill(copy, signal.SIGKILL)  # it is done, or late, or this process is to stop
            os.waitpid(copy, 0)
