"""Streams that were closed when the process began (`2>&-`), before anything else is loaded.

The next file that somebody opens would get the number of a closed stream, and messages would be
written into it. Shared libraries also open files when they are loaded, and keep them: libffi, which
ctypes takes, is one. So `nmt` calls this before it imports anything but the standard modules that
Python has loaded by then.
"""

from __future__ import annotations

import os


def open_closed_streams() -> None:
    """Open /dev/null where stdin, stdout or stderr is closed.

    Python's `sys.stdin`, `sys.stdout` and `sys.stderr` stay None, so that commands can refuse that.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(number, True)
