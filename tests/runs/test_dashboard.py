"""The rows that a running training shows on a terminal."""

from __future__ import annotations

import math
from typing import Any

from nmt.runs.report import rows, sparkline

TRAIN: dict[str, Any] = {
    "update": 1200,
    "loss": 3.4567,
    "nll": 2.5133,
    "perplexity": 12.345,
    "learning_rate": 3.4e-4,
    "grad_norm": 0.8534,
    "tokens_per_second": 31234.4,
    "padding": 0.0342,
    "skipped_updates": 0,
}
SAMPLE = {"line": 2, "source": "one", "reference": "eins", "translation": "zwei"}


def valid(update: int, nll: float, **more: Any) -> dict[str, Any]:
    return {"update": update, "loss": nll + 1, "nll": nll, "perplexity": math.exp(nll), **more}


def test_before_the_first_figures_there_is_nothing() -> None:
    assert rows({}, [], None) == []


def test_training_figures_are_those_that_the_record_has() -> None:
    assert rows(TRAIN, [], None) == [
        (
            "training",
            "nll 2.513, perplexity 12.35, smoothed loss 3.457, learning rate 0.00034, "
            "gradient 0.853",
        ),
        ("speed", "31,234 tokens/s, padding 3.4%, skipped updates 0"),
    ]
    more = TRAIN | {"mfu": 0.4123, "data_wait": 0.0013, "nonsense": 7}
    assert rows(more, [], None)[1] == (
        "speed",
        "31,234 tokens/s, mfu 41.2%, padding 3.4%, data wait 0.1%, skipped updates 0",
    )


def test_the_last_validation_the_best_and_the_history_are_shown() -> None:
    records = [valid(1000, 4.0), valid(2000, 3.0), valid(3000, 3.5, bleu=20.5)]
    assert rows({}, records, 2000) == [
        (
            "last valid",
            "update 3,000: nll 3.5000, perplexity 33.115, smoothed loss 4.5000, BLEU 20.50",
        ),
        ("best valid", "update 2,000: nll 3.0000, perplexity 20.086, smoothed loss 4.0000"),
        ("valid nll", "█▁▅ 4 to 3.5"),
    ]


def test_samples_are_those_of_the_last_validation() -> None:
    records = [valid(1, 2.0, samples=[SAMPLE | {"source": "old"}]), valid(2, 1.0, samples=[SAMPLE])]
    assert rows({}, records, None)[-3:] == [
        ("source", "one"),
        ("reference", "eins"),
        ("translation", "zwei"),
    ]


def test_a_sparkline_reaches_from_the_lowest_to_the_highest_value() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5.0, 5.0]) == "▁▁"
    assert sparkline([1.0, math.nan, 2.0, math.inf]) == "▁ █ "
