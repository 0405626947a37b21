"""A request to stop, by Ctrl-C, SIGTERM or SIGUSR1: noted, and answered between two updates."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Whether somebody has asked this process to stop, and how."""

    def __init__(self) -> None:
        self.reason = ""

    def __call__(self) -> bool:
        return bool(self.reason)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.reason:
            raise KeyboardInterrupt  # asked twice: whoever is at the keyboard does not want to wait
        self.reason = signal.Signals(number).name

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Note signals for the length of a block."""
        before = {number: signal.signal(number, self._note) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
