"""The deadline of a job: a time of day at which it stops, with its work saved."""

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
    """Return the seconds until the next HH:MM; UsageError if it is not a time."""
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"--deadline {text!r} is not a time of day; give it as HH:MM, for example 06:30"
        )
    then = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    if then <= now:
        then += datetime.timedelta(days=1)
    return then.timestamp() - now.timestamp()  # right across a clock change


@contextlib.contextmanager
def deadline(text: str | None) -> Iterator[None]:
    """Raise Stopped inside the block at the time HH:MM, if one is given."""
    if text is None:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Stopped(f"--deadline {text} reached; run the same command again to continue")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds_until(text, datetime.datetime.now()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
