"""The time at which a job ends, or how long it may take."""

import datetime

import pytest

from nmt.errors import UsageError
from nmt.jobs.deadline import parse_time_limit, seconds_until


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12:31", 60), ("12:30", 86_400), ("12:29", 86_340), ("6:30", 18 * 3600), ("00:00", 41_400)],
)
def test_a_deadline_is_the_next_time_of_that_name(text: str, seconds: int) -> None:
    assert seconds_until(text, datetime.datetime(2026, 3, 3, 12, 30)) == seconds


@pytest.mark.parametrize("text", ["24:00", "12:60", "noon", "12", "12:30:00"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=text):
        seconds_until(text, datetime.datetime(2026, 3, 3, 12, 30))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("0.5", 30),
        ("1:30", 5400),
        ("1:30:15", 5415),
        ("120:00:00", 432_000),
        ("2h", 7200),
        ("1h30m15s", 5415),
        ("45s", 45),
    ],
)
def test_a_time_limit_is_minutes_or_a_clock(text: str, seconds: int) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "0", "-5", "nan", "inf", "1:60", "1:5", "0:00", "1:00:60", "1:2:3:4", "1d"]
)
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--time-limit .* give minutes"):
        parse_time_limit(text)
