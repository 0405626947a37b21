"""What is said of a metric while and after it counts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace

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
    bar = SimpleNamespace(update=lambda: done.append("line"))
    monkeypatch.setattr(console, "progress", lambda *_, **__: nullcontext(bar))
    result = evaluate("ter", metric, [["ein Haus", "kein Baum"], ["", ""]])
    assert done == ["start", "line", "line"] * 2
    assert result.score.score == 25
