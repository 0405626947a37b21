"""The learning rate's schedules, against equation 3 of the paper and by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest

from nmt.config import TrainingConfig
from nmt.training.optimizer import learning_rate


def paper(d_model: int, step: int, warmup: int) -> float:
    """Equation 3 of the paper."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4_000), (1024, 4_000), (256, 250)])
def test_the_schedule_is_equation_3_of_the_paper(d_model: int, warmup: int) -> None:
    config = TrainingConfig(warmup_updates=warmup)
    for update in (1, 2, warmup - 1, warmup, warmup + 1, 10 * warmup, 1_000_000):
        expected = paper(d_model, update, warmup)
        assert learning_rate(config, d_model, update) == pytest.approx(expected, rel=1e-12)


def test_the_schedule_is_the_paper_s_in_figures() -> None:
    # (512 * 4000)^-0.5 = 6.98771e-4; a 4000th of it at first, and 1 / sqrt(10) of it at 40,000.
    found = [learning_rate(TrainingConfig(), 512, update) for update in (1, 4_000, 40_000)]
    assert found == pytest.approx([1.7469281e-7, 6.9877124e-4, 2.2097087e-4], rel=1e-7)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        # Updates 1, 2, 4 (the end of the warm-up), 8, 12, 16, 20 and 24, with a peak of 0.8, and an
        # end at 20.
        ("inverse_sqrt", [0.2, 0.4, 0.8, *(0.8 / math.sqrt(n) for n in (2, 3, 4, 5, 6))]),
        ("linear", [0.2, 0.4, 0.8, 0.6, 0.4, 0.2, 0.0, 0.0]),
        # (1 + cos(pi / 4)) / 2 of the peak after 4 of 16 updates, half of it after 8, and so on.
        (
            "cosine",
            [0.2, 0.4, 0.8, 0.4 + 0.2 * math.sqrt(2), 0.4, 0.4 - 0.2 * math.sqrt(2), 0.0, 0.0],
        ),
        ("constant", [0.2, 0.4, *[0.8] * 6]),
    ],
)
def test_schedules_by_hand(schedule: str, rates: list[float]) -> None:
    config = TrainingConfig(schedule=schedule, learning_rate=0.8, warmup_updates=4, max_updates=20)
    found = [learning_rate(config, 512, update) for update in (1, 2, 4, 8, 12, 16, 20, 24)]
    # The warm-up climbs by a quarter of the peak each update: 0.2, 0.4, 0.6, 0.8.
    assert found == pytest.approx(rates)


@pytest.mark.parametrize(("schedule", "longer"), [("linear", 0.75), ("cosine", 0.8535534)])
def test_a_longer_run_lifts_the_schedules_that_end_at_zero(schedule: str, longer: float) -> None:
    # At update 12, the end of the first 12 updates, then of 36: a quarter of the longer way.
    short = TrainingConfig(schedule=schedule, learning_rate=1.0, warmup_updates=4, max_updates=12)
    both = short, dataclasses.replace(short, max_updates=36)
    assert [learning_rate(config, 1, 12) for config in both] == pytest.approx([0.0, longer])
