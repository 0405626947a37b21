"""The time at which a job ends: how long it is until then."""

from __future__ import annotations

import datetime

import pytest

from nmt.errors import UsageError
from nmt.jobs.deadline import seconds_until


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
