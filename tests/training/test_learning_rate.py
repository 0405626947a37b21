"""The learning rate of each update, and the update at which training ends by it."""

import math

import pytest

from nmt.config.training_config import TrainingConfig
from nmt.training.learning_rate import fall_of, learning_rate


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4_000), (1024, 4_000), (256, 250)])
def test_the_schedule_is_equation_3_of_the_paper(d_model: int, warmup: int) -> None:
    config = TrainingConfig(warmup_updates=warmup)
    for update in (1, 2, warmup - 1, warmup, warmup + 1, 10 * warmup, 1_000_000):
        expected = d_model**-0.5 * min(update**-0.5, update * warmup**-1.5)
        assert learning_rate(config, d_model, update, (1, 1)) == pytest.approx(expected, rel=1e-12)


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
        # At the latest it falls after update 12, which is 20 / 1.6.
        (
            "until_flat",
            [0.2, 0.4, 0.8, 0.8 / math.sqrt(2), 0.8 / math.sqrt(3), 0.4 * 4 / 8, 0.0, 0.0],
        ),
    ],
)
def test_schedules_by_hand(schedule: str, rates: list[float]) -> None:
    config = TrainingConfig(schedule=schedule, learning_rate=0.8, warmup_updates=4, max_updates=20)
    updates = (1, 2, 4, 8, 12, 16, 20, 24)
    found = [learning_rate(config, 512, update, fall_of(config, ())) for update in updates]
    # The warm-up climbs by a quarter of the peak each update: 0.2, 0.4, 0.6, 0.8.
    assert found == pytest.approx(rates)


@pytest.mark.parametrize(
    ("history", "fall"),
    [
        ([(100, 5.0), (200, 4.0)], (1_000, 1_600)),  # as long as nothing else is known
        ([(100, 5.0), (200, 4.7)], (200, 320)),  # it gained 0.3
        ([(100, 5.0), (200, 4.5)], (1_000, 1_600)),
        # It gained 0.44 at 200, and 0.24 at 300 since 150, where it was 4.78. So 0.34 is at 250.
        ([(100, 5.0), (200, 4.56), (300, 4.54)], (300, 400)),
        # Also if the validation comes after the end of that.
        ([(100, 5.0), (200, 4.56), (600, 4.56)], (600, 660)),
        # What follows does not matter, nor what was before the end of the warm-up.
        ([(100, 5.0), (200, 4.7), (300, 3.0)], (200, 320)),
        ([(40, 9.0), (80, 8.9), (160, 8.0)], (1_000, 1_600)),
        # Nothing is flat so late that the rate could not fall to 0 any more.
        ([(600, 5.0), (1_200, 4.9)], (1_000, 1_600)),
    ],
)
def test_validation_is_flat_if_it_gained_little_since_half_the_updates(
    history: list[tuple[int, float]], fall: tuple[int, int]
) -> None:
    config = TrainingConfig(
        schedule="until_flat", flat_gain=0.34, warmup_updates=50, max_updates=1_600
    )
    assert fall_of(config, history) == fall
    start, end = fall
    steps = (start, start + 1, end)
    before, first, last = (learning_rate(config, 512, update, fall) for update in steps)
    left = (end - start - 1) / (end - start)
    assert first / before == pytest.approx(left * (start / (start + 1)) ** 0.5)
    assert last == 0


@pytest.mark.parametrize(
    ("bleu", "fall"),
    [
        ([20.0, 23.0], (1_000, 1_600)),
        ([20.0, 22.0], (200, 320)),  # a tenth
        ([0.0, 0.0], (1_000, 1_600)),  # nothing learnt yet
        ([4.0, 4.1], (1_000, 1_600)),  # too little to tell
        ([20.0, 0.0], (1_000, 1_600)),
    ],
)
def test_bleu_is_flat_by_its_share(bleu: list[float], fall: tuple[int, int]) -> None:
    config = TrainingConfig(
        schedule="until_flat",
        flat_gain=0.12,
        validate_metric="bleu",
        best_metric="bleu",
        warmup_updates=50,
        max_updates=1_600,
    )
    assert fall_of(config, [(100, -bleu[0]), (200, -bleu[1])]) == fall


def test_a_short_run_falls_from_the_end_of_its_warm_up() -> None:
    config = TrainingConfig(schedule="until_flat", warmup_updates=500, max_updates=600)
    assert fall_of(config, [(300, 5.0)]) == (500, 600)


def test_other_schedules_end_at_max_updates_however_flat_the_loss_is() -> None:
    config = TrainingConfig(schedule="linear", warmup_updates=1, max_updates=1_600)
    assert fall_of(config, [(100, 5.0), (200, 5.0)])[1] == 1_600
