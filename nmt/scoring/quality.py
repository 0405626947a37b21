"""How good a line's translation may be: the sentence chrF that such lines had before.

A logistic curve tells it from what every search knows of a line: the log-probability of a token,
and the lengths of source and translation. So it holds for the translations of an export, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LINES_TOGETHER = 100  # whose mean `try_halves` compares
_FEATURES = 3  # see `features_of`
_LEAST_DEVIATION = 1e-5
_STEPS = 25  # of Newton's method
_RIDGE = 0.25  # on all weights but the constant
_GROUPS = 6  # of lines, by what the curve tells
_ENDS = 10, 90  # percentiles, between which an interval holds 8 of 10 lines
_NEAREST = 1e-3  # to 0 and to 1 that a curve tells
_USUAL = 1  # percentile of the log-probability of a token
_DRAWS = 1_000


class Estimate(NamedTuple):
    """The sentence chrF that a translation may have, in percent."""

    chrf: float
    low: float  # 8 of 10 such lines were between both
    high: float
    is_unusual: bool  # less probable than 99 of 100 lines of calibration


class Trial(NamedTuple):
    """How well a curve tells the chrF of lines to which it was not fitted, in percent."""

    fifths: list[tuple[float, float]]  # the means told and true, of the worst fifth first
    correlation: float  # Pearson's r of lines
    error: float  # mean absolute error of the mean of `LINES_TOGETHER` lines


def features_of(source: str, text: str, log_prob: float, tokens: int, segments: int) -> list[float]:
    """Return what the curve knows of a translation, whose tokens do not include the eos."""
    length = length_of(source)
    return [
        log_prob / (tokens + segments),
        math.log(length / segments + 1),
        math.log((length_of(text) + 1) / (length + 1)),
    ]


def length_of(text: str) -> int:
    """Return the characters of a text; spaces at its ends, and more than one, do not count."""
    return len(" ".join(text.split()))


@dataclass(frozen=True)
class Curve:
    """A logistic curve, what corrects it, and its intervals. Fractions, not percent."""

    least_usual: float  # log-probability of a token
    means: tuple[float, ...]  # of the features (F,)
    deviations: tuple[float, ...]
    weights: tuple[float, ...]  # of the constant and the features (F + 1,)
    told: tuple[float, ...]  # by the curve: the mean of each group, in ascending order
    corrections: tuple[float, ...]  # of what is told, at these means
    # The ends of the interval, as shares of the way from what is told and corrected to 0 and to 1.
    # Many lines of good text have a chrF of 1, which no distance reaches from all of a group.
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check what a file says (ValueError)."""
        in_groups = self.told, self.corrections, self.lows, self.highs
        sizes = [_FEATURES, _FEATURES, _FEATURES + 1, *[_GROUPS] * len(in_groups)]
        lists = [self.means, self.deviations, self.weights, *in_groups]
        if not (
            [len(each) for each in lists] == sizes
            and min(self.deviations) >= _LEAST_DEVIATION
            and list(self.told) == sorted(self.told)
            and all(abs(value) < 1e6 for value in chain([self.least_usual], *lists))  # NaN is not
        ):
            raise ValueError("no curve")

    @classmethod
    def fit(cls, rows: NDArray[np.float64], chrf: NDArray[np.float64]) -> Self:
        """Fit a curve to the features (N, F) and the sentence chrF (N,) of lines, in percent."""
        import numpy as np

        means, deviations = rows.mean(0), rows.std(0)
        deviations[deviations < _LEAST_DEVIATION] = 1  # of equal numbers, it is rarely 0
        inputs = np.insert((rows - means) / deviations, 0, 1, axis=1)
        ridge = np.diag([0, *[_RIDGE] * len(means)])
        true, weights = chrf / 100, np.zeros(len(ridge))
        for _ in range(_STEPS):
            told = _logistic(inputs @ weights)
            slope = inputs.T @ (true - told) - ridge @ weights
            curvature = (inputs.T * (told * (1 - told))) @ inputs + ridge
            weights += np.linalg.lstsq(curvature, slope)[0]
        told = _logistic(inputs @ weights)
        groups = np.array_split(np.argsort(told, kind="stable"), _GROUPS)
        centres = [told[group].mean() for group in groups]
        corrections = [(true - told)[group].mean() for group in groups]
        told = _inside(told + np.interp(told, [0, *centres], [0, *corrections]))
        ways = np.array([true / told - 1, (true - told) / (1 - told)])  # to 0, and to 1
        lows, highs = np.transpose(
            [list(map(np.percentile, ways[:, group], _ENDS)) for group in groups]
        )
        lows, highs = np.minimum(lows, 0), np.maximum(highs, 0)  # if a few lines are far off
        lists = means, deviations, weights, centres, corrections, lows, highs
        rounded = [tuple(round(float(one), 6) for one in each) for each in lists]
        return cls(float(np.percentile(rows[:, 0], _USUAL)), *rounded)

    def estimates(self, rows: NDArray[np.float64]) -> list[Estimate]:
        """Tell the chrF of translations from their features (N, F)."""
        import numpy as np

        scaled = (rows - self.means) / self.deviations
        told = _logistic(self.weights[0] + scaled @ self.weights[1:])
        low, high = (np.interp(told, self.told, each) for each in (self.lows, self.highs))
        told = _inside(told + np.interp(told, [0, *self.told], [0, *self.corrections]))
        percent = np.clip([told, told + low * told, told + high * (1 - told)], 0, 1).T * 100
        is_unusual = rows[:, 0] < self.least_usual
        each = zip(percent.tolist(), is_unusual.tolist(), strict=True)
        return [Estimate(chrf, low, high, unusual) for (chrf, low, high), unusual in each]


def _inside(chrf: NDArray[np.float64]) -> NDArray[np.float64]:
    return chrf.clip(_NEAREST, 1 - _NEAREST)


def _logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


def try_halves(rows: NDArray[np.float64], chrf: NDArray[np.float64]) -> Trial:
    """Fit a curve to each half of some lines, and try it on the other half; see `Curve.fit`."""
    import numpy as np

    told, errors, random = np.empty(len(chrf)), list[float](), np.random.default_rng(1)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        other = slice(1 - half.start, None, 2)
        told[half] = [one.chrf for one in Curve.fit(rows[other], chrf[other]).estimates(rows[half])]
        draws = random.choice((told - chrf)[half], (_DRAWS, LINES_TOGETHER))
        errors += abs(draws.mean(1)).tolist()
    fifths = np.array_split(np.argsort(told, kind="stable"), 5)
    varies = told.std() > 0 < chrf.std()
    return Trial(
        [(float(told[fifth].mean()), float(chrf[fifth].mean())) for fifth in fifths],
        float(np.corrcoef(told, chrf)[0, 1]) if varies else 0.0,
        float(np.mean(errors)),
    )
