"""Requests to stop: Ctrl-C, other signals and the time limit.

A signal only sets a flag. Training checks it between two micro-batches, two batches of validation,
and two steps of validation's beam search.
"""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Iterator
from types import FrameType

from nmt.system.program import interrupt

# One Ctrl-C may come twice: from the terminal, and passed on by torchrun.
_SAME_CTRL_C = 1.0  # seconds


class StopRequest:
    """Whether this process should stop, and why."""

    def __init__(self, deadline: float = math.inf) -> None:
        """Start without signal handlers; `deadline` is a time of `time.monotonic`."""
        self.reason = ""
        self._deadline = deadline
        self._interrupted = math.inf  # when Ctrl-C was noted
        self._at_once = False

    def __call__(self) -> bool:
        """Tell whether this process should stop."""
        if not self.reason and time.monotonic() >= self._deadline:
            self.reason = "time limit"
        return bool(self.reason)

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take a signal for a request, as its handler."""
        self.reason = signal.Signals(number).name
        if self._at_once:
            interrupt(number, frame)
        if number != signal.SIGINT:
            return
        now = time.monotonic()
        if now > self._interrupted + _SAME_CTRL_C:
            raise KeyboardInterrupt  # a second Ctrl-C: the user does not want to wait
        self._interrupted = min(now, self._interrupted)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let signals end the process at once, while nothing needs saving."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False
