"""When a job stops, with its work saved: at a time of day, or after some time."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from nmt.errors import Stopped, UsageError

_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_CLOCK = re.compile(r"(\d{1,6}):([0-5]\d)(?::([0-5]\d))?")
_UNITS = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")


def seconds_until(text: str, now: datetime.datetime) -> float:
    """Return the seconds until the next HH:MM; UsageError if it is not a time."""
    if not (match := _TIME_OF_DAY.fullmatch(text.strip())):
        raise UsageError(
            f"--deadline {text!r} is not a time of day; give it as HH:MM, for example 06:30"
        )
    then = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    if then <= now:
        then += datetime.timedelta(days=1)
    return then.timestamp() - now.timestamp()  # right across a clock change


def parse_time_limit(text: str) -> float:
    """Return the seconds of minutes as a number, 1h30m, HH:MM or H:MM:SS (UsageError)."""
    stripped = text.strip()
    if match := stripped and (_CLOCK.fullmatch(stripped) or _UNITS.fullmatch(stripped)):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        limit = 3600.0 * hours + 60 * minutes + seconds
    else:
        try:
            limit = 60 * float(text)
        except ValueError:
            limit = math.nan
    if not 0 < limit < math.inf:
        raise UsageError(
            f"--time-limit {text!r} is not a duration; give minutes (90), 1h30m, HH:MM (1:30) or "
            "H:MM:SS (1:30:00)"
        )
    return limit


def first_limit(time_limit: str | None, deadline: str | None) -> tuple[float, str]:
    """Return the seconds until the first of both, and its option; infinity without any."""
    limits = [(math.inf, "")]
    if time_limit is not None:
        limits.append((parse_time_limit(time_limit), f"--time-limit {time_limit}"))
    if deadline is not None:
        limits.append((seconds_until(deadline, datetime.datetime.now()), f"--deadline {deadline}"))
    return min(limits)


@contextlib.contextmanager
def stopped_in_time(time_limit: str | None, deadline: str | None) -> Iterator[None]:
    """Raise Stopped inside the block after the time limit, or at the time HH:MM, if given."""
    seconds, option = first_limit(time_limit, deadline)
    if not option:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Stopped(f"{option} reached; run the same command again to continue")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
