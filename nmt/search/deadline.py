"""An end by the clock."""

from __future__ import annotations

import contextlib
import datetime
import re
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from nmt.errors import Stopped, UsageError

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def seconds_until(text: str, now: datetime.datetime) -> float:
    """Return how long it is until the clock shows the time HH:MM next.

    Raises:
        UsageError: if it is no such time.
    """
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        raise UsageError(f"--deadline {text!r} is no time of day; give it as HH:MM (06:30)")
    then = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    if then <= now:
        then += datetime.timedelta(days=1)
    return then.timestamp() - now.timestamp()  # the clock may be put forward or back in between


@contextlib.contextmanager
def deadline(text: str | None) -> Iterator[None]:
    """Let Stopped end the block when the clock shows the time HH:MM, if one is given."""
    if text is None:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Stopped(f"--deadline {text} has come; run the same command again to go on")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds_until(text, datetime.datetime.now()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
