"""What is said of a metric while and after it counts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from nmt import console
from nmt.scoring.metrics import LineCounts, Metric, make_metrics
from nmt.scoring.results import evaluate


def test_progress_counts_each_line_of_each_output(monkeypatch: pytest.MonkeyPatch) -> None:
    (metric,) = make_metrics(["ter"], [["ein Haus", "ein Baum"]]).values()
    done: list[str] = []
    count = Metric.count

    def counting(self: Metric, hypotheses: Iterable[str]) -> LineCounts:
        done.append("start")
        return count(self, hypotheses)

    monkeypatch.setattr(Metric, "count", counting)
    monkeypatch.setattr(console._NoBar, "update", lambda _: done.append("line"))
    result = evaluate("ter", metric, [["ein Haus", "kein Baum"], ["", ""]])
    assert done == ["start", "line", "line"] * 2
    assert result.score.score == 25
