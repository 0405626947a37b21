"""The learning curves: which of a run's metrics stand in which panel."""

from __future__ import annotations

import math
from xml.etree import ElementTree

from svg_picture import places, texts, titles

from nmt.runs.run_folder import curves_from_metrics


def test_metrics_become_panels() -> None:
    records: list[dict[str, object]] = [
        {"kind": "train", "update": 100, "loss": 6.1, "nll": 5.9, "learning_rate": 3e-4,
         "tokens_per_second": 12345.0, "grad_norm": 1.2},
        {"kind": "start", "update": 150, "nll": 77.0},
        {"kind": "valid", "update": 200, "loss": 5.0, "nll": 4.5, "perplexity": 90.0},
    ]  # fmt: skip
    names = ["nll", "Perplexity", "Learning rate", "Speed", "Gradient norm"]
    picture = ElementTree.fromstring(curves_from_metrics(records))
    assert titles(picture) == ["Learning curves", *names]
    assert not any("77" in text for text in texts(picture))
    # Ticks 4.5, 5, 5.5, 6: 5.9 stands 1.4 / 1.5 up the 200 pixels, and 4.5 at the foot.
    assert places(picture)[:2] == [[(200, 13.3)], [(400, 200)]]


def test_bleu_has_a_panel_once_it_was_taken() -> None:
    valid: dict[str, object] = {"kind": "valid", "update": 1, "nll": 1.0, "perplexity": math.e}
    assert "BLEU" not in titles(ElementTree.fromstring(curves_from_metrics([valid])))
    scored = {**valid, "update": 2, "bleu": 28.81}
    picture = ElementTree.fromstring(curves_from_metrics([valid, scored]))
    assert "BLEU" in titles(picture)
    assert any("28.81" in text for text in texts(picture))


def test_records_that_are_not_numbers_are_left_out() -> None:
    records: list[dict[str, object]] = [
        {"kind": "train", "update": 1},
        {"kind": "train", "update": 2, "nll": None},
        {"kind": "train", "update": "3", "nll": 1.0},
        {},
    ]
    assert places(ElementTree.fromstring(curves_from_metrics(records))) == []
