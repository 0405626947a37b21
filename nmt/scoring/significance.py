"""Confidence intervals of scores, and significance of differences, by resampling lines.

Bootstrap resampling draws as many lines with replacement, many times, and scores each draw (Koehn
2004). Approximate randomisation swaps lines of two systems at random: if the systems are equally
good, differences as large as the observed one are frequent (Riezler and Maxwell 2005). Both add up
counts by line, so that no text is scored again.

Draws and results are those of `sacrebleu.significance` for the same seed. Unlike sacreBLEU, you can
choose the confidence level, memory is bounded, and ties count as chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.errors import UsageError
from nmt.scoring.metrics import LineCounts

Array = npt.NDArray[np.float64]
Value = Callable[[list[float]], float]
"""Counts that were added up -> figure in percent."""

_CHUNK = 1 << 22  # lines drawn at once, each of which takes some bytes
_ROUNDING = 1e-9  # of a figure in percent


@dataclass(frozen=True)
class Resampling:
    """How often to draw, and what to say of it."""

    samples: int = 1000
    """Of the bootstrap."""

    trials: int = 10_000
    """Of approximate randomisation."""

    seed: int = 12345
    """sacreBLEU's default, too."""

    level: float = 95.0
    """Per cent of the bootstrap's samples that an interval holds."""

    def __post_init__(self) -> None:
        if self._outside == 0:
            enough = math.ceil(round(200 / (100 - self.level), 6))
            raise UsageError(
                f"{self.samples:,} samples are too few for an interval of {self.level:g} %; "
                f"take --samples {enough} or more"
            )

    @property
    def _outside(self) -> int:
        # 99.9 is no sum of powers of two, and what is left of 100 falls short of 0.1.
        return int(round(self.samples * (100 - self.level) / 200, 6))

    def interval(self, figures: Array) -> Interval:
        """Return the interval that leaves equally many samples out at either side."""
        ordered = np.sort(figures)
        lower, upper = ordered[self._outside], ordered[-1 - self._outside]
        return Interval(float(lower), float(upper), mean=float(ordered.mean()))


@dataclass(frozen=True)
class Interval:
    """Between what figures, in percent, most bootstrap samples lie.

    sacreBLEU's plus-minus is half its width, its mu the mean of all samples.
    """

    lower: float
    upper: float
    mean: float


@dataclass(frozen=True)
class Comparison:
    """An output beside a baseline."""

    baseline: float
    """The baseline's figure, in percent."""

    difference: float
    """The output's figure less the baseline's."""

    interval: Interval
    """Of the difference."""

    p_bootstrap: float
    """Chance of a difference this large between equals, by paired bootstrap resampling."""

    p_randomisation: float
    """The same by approximate randomisation, which is the sharper test."""


def confidence(value: Value, counts: LineCounts, resampling: Resampling) -> Interval:
    """Return where the figure of other lines of this kind is to be expected."""
    figures = _figures(value, _draw(np.array(counts, dtype=np.float64), resampling))
    return resampling.interval(figures)


def compare(
    value: Value, output: LineCounts, baseline: LineCounts, resampling: Resampling
) -> Comparison:
    """Compare an output with a baseline on the same lines, two-sided.

    output, baseline: N lines each, by the same measure.
    """
    ours, theirs = (np.array(counts, dtype=np.float64) for counts in (output, baseline))
    first, second = (value(counts.sum(axis=0).tolist()) for counts in (ours, theirs))
    difference = abs(first - second)

    drawn = _draw(np.hstack([ours, theirs]), resampling)
    width = ours.shape[1]
    samples = _figures(value, drawn[:, :width]) - _figures(value, drawn[:, width:])
    # Equals would differ as the samples do, only around nothing.
    deviations = np.abs(samples) - np.abs(samples).mean()

    swapped = [_figures(value, sums) for sums in _swap(ours, theirs, resampling)]
    trials = np.abs(swapped[0] - swapped[1])
    return Comparison(
        baseline=second,
        difference=first - second,
        interval=resampling.interval(samples),
        p_bootstrap=_p_value(deviations, difference),
        p_randomisation=_p_value(trials, difference),
    )


def _figures(value: Value, sums: Array) -> Array:
    """Return the figure of each row of sums."""
    return np.array([value(row.tolist()) for row in sums])


def _p_value(chance: Array, difference: float) -> float:
    """Return how many of the draws, the true one with them, differ at least so much."""
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
    # numpy draws coins by 32 at once, and throws away what a call leaves over.
    for rows in _chunks(resampling.trials, lines, multiple=32):
        coins = generator.integers(2, size=(rows, lines), dtype=bool)
        moved.append(coins.astype(np.float64) @ (theirs - ours))  # (rows, K)
    change = np.concatenate(moved)
    return ours.sum(axis=0) + change, theirs.sum(axis=0) - change


def _chunks(total: int, lines: int, *, multiple: int) -> Iterator[int]:
    """Yield numbers of rows that add up to `total`, each but the last a multiple of a number.

    As many as `_CHUNK` has room for, or one multiple.
    """
    rows = max(1, _CHUNK // lines // multiple) * multiple
    for start in range(0, total, rows):
        yield min(rows, total - start)
