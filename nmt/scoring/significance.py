"""Confidence intervals of scores, and significance of differences, by resampling lines.

Bootstrap resampling draws as many lines with replacement, many times, and scores each draw (Koehn
2004). Approximate randomisation swaps lines of two systems at random: if the systems are equally
good, differences as large as the observed one are frequent (Riezler and Maxwell 2005). Both add up
counts by line, so that no text is scored again.

Draws and results are those of `sacrebleu.significance` for the same seed. Unlike sacreBLEU, you can
choose the confidence level, memory is bounded, and ties count as chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.scoring.metrics import LineCounts
from nmt.scoring.options import Resampling

Array = npt.NDArray[np.float64]
ScoreOf = Callable[[list[float]], float]
"""Sums of counts -> score in percent: `Metric.value`."""

_CHUNK = 1 << 22  # lines drawn at once, each of which takes some bytes
_ROUNDING = 1e-9  # of a score in percent


@dataclass(frozen=True)
class Interval:
    """The scores, in percent, between which most bootstrap samples lie.

    sacreBLEU's plus-minus is half its width, and its mu is the mean of all samples.
    """

    percent: float
    lower: float
    upper: float
    mean: float


@dataclass(frozen=True)
class Comparison:
    """An output compared with a baseline."""

    score: float
    """The baseline's, in percent."""

    difference: float
    """The output's score less the baseline's."""

    confidence: Interval
    """Of the difference."""

    p_bootstrap: float
    """How often equal systems would differ this much, by paired bootstrap resampling."""

    p_randomisation: float
    """The same by approximate randomisation, which is the sharper test."""


def confidence(score_of: ScoreOf, counts: LineCounts, resampling: Resampling) -> Interval:
    """Return the interval of the score on other lines of this kind."""
    scores = _scores(score_of, _draw(np.array(counts, dtype=np.float64), resampling))
    return _interval(resampling, scores)


def compare(
    score_of: ScoreOf, output: LineCounts, baseline: LineCounts, resampling: Resampling
) -> Comparison:
    """Compare an output with a baseline on the same N lines, two-sided."""
    ours, theirs = (np.array(counts, dtype=np.float64) for counts in (output, baseline))  # (N, K)
    first, second = (score_of(counts.sum(axis=0).tolist()) for counts in (ours, theirs))
    difference = abs(first - second)

    drawn = _draw(np.hstack([ours, theirs]), resampling)
    width = ours.shape[1]
    samples = _scores(score_of, drawn[:, :width]) - _scores(score_of, drawn[:, width:])
    # Equal systems would differ as the samples do, but around 0.
    deviations = np.abs(samples) - np.abs(samples).mean()

    swapped = [_scores(score_of, sums) for sums in _swap(ours, theirs, resampling)]
    trials = np.abs(swapped[0] - swapped[1])
    return Comparison(
        score=second,
        difference=first - second,
        confidence=_interval(resampling, samples),
        p_bootstrap=_p_value(deviations, difference),
        p_randomisation=_p_value(trials, difference),
    )


def _scores(score_of: ScoreOf, sums: Array) -> Array:
    """Return the score of each row: (draws, K) -> (draws,)."""
    return np.array([score_of(row.tolist()) for row in sums])


def _interval(resampling: Resampling, scores: Array) -> Interval:
    """Return the interval that leaves out equally many samples at either side."""
    ordered = np.sort(scores)
    lower, upper = ordered[resampling.samples_outside], ordered[-1 - resampling.samples_outside]
    return Interval(resampling.level, float(lower), float(upper), mean=float(ordered.mean()))


def _p_value(chance: Array, difference: float) -> float:
    """Return the share of draws, the observed one included, that differ at least this much."""
    extreme = int(np.count_nonzero(chance >= difference - _ROUNDING))
    return (extreme + 1) / (len(chance) + 1)


def _draw(counts: Array, resampling: Resampling) -> Array:
    """Draw N of N lines with replacement and add them up: (N, K) -> (samples, K)."""
    generator = np.random.default_rng(resampling.seed)
    lines = len(counts)
    sums = []
    for rows in _chunks(resampling.samples, lines, multiple=1):
        drawn = generator.choice(lines, size=(rows, lines), replace=True)
        times = np.array([np.bincount(row, minlength=lines) for row in drawn], dtype=np.float64)
        sums.append(times @ counts)  # (rows, K)
    return np.concatenate(sums)


def _swap(ours: Array, theirs: Array, resampling: Resampling) -> tuple[Array, Array]:
    """Swap each line by the toss of a coin and add up: (N, K) twice -> (trials, K) twice."""
    generator = np.random.default_rng(resampling.seed)
    lines = len(ours)
    moved = []
    # numpy draws coins by 32 at once, and throws away the rest of a call's last 32.
    for rows in _chunks(resampling.trials, lines, multiple=32):
        coins = generator.integers(2, size=(rows, lines), dtype=bool)
        moved.append(coins.astype(np.float64) @ (theirs - ours))  # (rows, K)
    change = np.concatenate(moved)
    return ours.sum(axis=0) + change, theirs.sum(axis=0) - change


def _chunks(total: int, lines: int, *, multiple: int) -> Iterator[int]:
    """Yield numbers of draws that add up to `total`, each as large as `_CHUNK` allows.

    Each but the last is a multiple of `multiple`.
    """
    rows = max(1, _CHUNK // lines // multiple) * multiple
    for start in range(0, total, rows):
        yield min(rows, total - start)
