"""Confidence intervals of scores, and significance of differences: sacreBLEU's draws and tests.

Bootstrap resampling draws as many lines with replacement, many times, and scores each draw (Koehn
2004). Approximate randomisation swaps lines of two systems at random: if the systems are equally
good, differences as large as the observed one are frequent (Riezler and Maxwell 2005). Both add up
counts by line, so that no text is scored again.

`sacrebleu.significance` draws, and tests. Two things are done here. It has no intervals of
differences, and only those of 95 %, so intervals are taken from its samples. And it does not count
draws that are just as far apart as the systems, so that its p-values of two equal outputs, or of
outputs that differ in few lines, would be the lowest there are; see `_lowest_p_value`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.base import Score, Signature
from sacrebleu.significance import PairedTest, Result, _bootstrap_resample

from nmt.errors import UsageError
from nmt.scoring.metrics import LineCounts
from nmt.scoring.options import Resampling

Array = npt.NDArray[np.float64]
ScoreOf = Callable[[list[float]], float]  # sums of counts -> score in percent: `Metric.value`


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
    score: float  # the baseline's, in percent
    difference: float  # the output's score less the baseline's
    confidence: Interval  # of the difference
    p_bootstrap: float
    """How often equal systems would differ this much, by paired bootstrap resampling."""

    p_randomisation: float  # the same by approximate randomisation, which is the sharper test


def confidence(score_of: ScoreOf, counts: LineCounts, resampling: Resampling) -> Interval:
    """Return the interval of the score on other lines of this kind."""
    rows = np.array(counts, dtype=np.float64)
    _check_memory(rows, resampling.samples, trials=0)
    return _interval(resampling, _samples(score_of, rows, resampling))


def compare(
    score_of: ScoreOf, output: LineCounts, baseline: LineCounts, resampling: Resampling
) -> Comparison:
    """Compare an output with a baseline on the same N lines, two-sided."""
    ours, theirs = (np.array(counts, dtype=np.float64) for counts in (output, baseline))  # (N, K)
    _check_memory(ours, resampling.samples, resampling.trials)
    first, second = (score_of(counts.sum(axis=0).tolist()) for counts in (ours, theirs))
    # The same seed draws the same lines of both.
    samples = _samples(score_of, ours, resampling) - _samples(score_of, theirs, resampling)
    p_values = [_p_value(kind, score_of, ours, theirs, resampling) for kind in ("bs", "ar")]
    lowest, interval = _lowest_p_value(ours, theirs), _interval(resampling, samples)
    return Comparison(second, first - second, interval, *(max(lowest, p) for p in p_values))


class _Counted:
    """A metric as sacreBLEU's tests call it, whose "text" is the counts of its lines."""

    def __init__(self, score_of: ScoreOf) -> None:
        self._score_of = score_of

    def _extract_corpus_statistics(self, counts: Array, _: None) -> Array:
        return counts

    def _aggregate_and_compute(self, counts: Array) -> Score:
        return self._compute_score_from_stats(counts.sum(axis=0))

    def _compute_score_from_stats(self, sums: Array) -> Score:
        return Score("score", self._score_of(sums.tolist()))

    def get_signature(self) -> Signature:
        return Signature({"num_refs": 1})  # nobody reads it


def _p_value(
    test_type: str, score_of: ScoreOf, ours: Array, theirs: Array, resampling: Resampling
) -> float:
    """Return the p-value of sacreBLEU's paired bootstrap (bs) or approximate randomisation (ar)."""
    _set_seed(resampling)
    test = PairedTest(
        cast(Any, [("baseline", theirs), ("output", ours)]),
        {"score": cast(SacreMetric, _Counted(score_of))},
        references=None,
        test_type=test_type,
        n_samples=resampling.samples if test_type == "bs" else resampling.trials,
    )
    _, result = cast(list[Result], test()[1]["score"])
    assert result.p_value is not None
    return result.p_value


def _samples(score_of: ScoreOf, counts: Array, resampling: Resampling) -> Array:
    """Return the score of each bootstrap sample: (samples,)."""
    _set_seed(resampling)
    metric = cast(SacreMetric, _Counted(score_of))
    _, scores = _bootstrap_resample(cast(Any, counts), metric, resampling.samples)
    return np.array([sample.score for sample in scores])


def _interval(resampling: Resampling, scores: Array) -> Interval:
    """Return the interval that leaves out equally many samples at either side."""
    ordered = np.sort(scores)
    lower, upper = ordered[resampling.samples_outside], ordered[-1 - resampling.samples_outside]
    return Interval(resampling.level, float(lower), float(upper), mean=float(ordered.mean()))


def _lowest_p_value(ours: Array, theirs: Array) -> float:
    """Return the p-value of a baseline that loses in each line that differs.

    For example, 4 lines differ. Of the 16 ways to swap them, two are as far apart as the systems:
    none swapped, and all. So p is at least 2/16, however large the difference is.
    """
    differing = int(np.count_nonzero((ours != theirs).any(axis=1)))
    return min(1.0, 2.0 ** (1 - differing))


def _set_seed(resampling: Resampling) -> None:
    os.environ["SACREBLEU_SEED"] = str(resampling.seed)  # sacreBLEU takes it from nowhere else


def _check_memory(counts: Array, samples: int, trials: int) -> None:
    """Raise UsageError if the draws, which sacreBLEU makes all at once, do not fit into memory."""
    lines, width = counts.shape
    # Of samples: line numbers in int64, and counts in fp32. Of trials: two masks, and one in fp64.
    needed = lines * max(samples * (8 + 4 * width), 10 * trials)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory / 2:
        raise UsageError(
            f"draws of {lines:,} lines would take {needed / 1e9:,.0f} GB of memory; compare fewer"
        )
