"""The result of one metric for an output and its baselines: score, interval, comparisons, lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.scoring.metrics import Measure, Score

if TYPE_CHECKING:
    from nmt.scoring.significance import Comparison, Interval, Resampling


@dataclass(frozen=True)
class Figure:
    """What a metric says of an output."""

    score: Score
    """Its signature names what was drawn for interval and comparisons."""

    interval: Interval | None
    """Of the score, where asked for."""

    comparisons: tuple[Comparison, ...]
    """With each baseline."""

    lines: Lines | None
    """Where asked for."""


@dataclass(frozen=True)
class Lines:
    """The figures of single lines."""

    signature: str

    scores: tuple[tuple[float, ...], ...]
    """In percent, of N lines each: the output's, and each baseline's."""


def figure(
    measure: Measure,
    outputs: Sequence[Sequence[str]],
    resampling: Resampling | None,
    *,
    interval: bool = False,
    by_line: bool = False,
    in_total: bool = True,
) -> Figure:
    """Score the first of some outputs, and compare it with the others.

    outputs: N lines each.
    resampling: how to draw; where nothing is drawn, none is needed.
    interval: whether the score gets one; differences always do.
    by_line: whether single lines are scored, too.
    in_total: whether differences are judged, which takes most of the time.
    """
    counts, *others = [measure.count(lines) for lines in outputs]
    lines = None
    if by_line:
        single = measure.of_lines()
        scores = tuple(tuple(map(single.value, rows)) for rows in (counts, *others))
        lines = Lines(single.score(counts).signature, scores)
    if resampling is None:
        return Figure(measure.score(counts), None, (), lines)
    from nmt.scoring.significance import compare, confidence  # by NumPy, which takes its time

    drawn = {}
    if interval or others:
        drawn = {"bs": resampling.samples, "seed": resampling.seed}
    if others:
        drawn["ar"] = resampling.trials
    return Figure(
        measure.score(counts, drawn),
        confidence(measure.value, counts, resampling) if interval else None,
        tuple(compare(measure.value, counts, other, resampling) for other in others if in_total),
        lines,
    )
