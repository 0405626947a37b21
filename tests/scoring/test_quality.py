"""A curve told by log-probability and lengths: what it says of lines that it was not fitted to."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nmt.scoring.quality import Curve, features_of, try_halves


def lines(count: int, *, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw features (N, 3) and chrF (N,), which bends as a logistic curve does, with noise."""
    random = np.random.default_rng(seed)
    rows = random.normal([-0.7, 3.5, 0.1], [0.3, 0.5, 0.2], (count, 3))
    bent = 1 / (1 + np.exp(-(2.5 + rows @ [4, 0.2, -1])))
    return rows, 100 * np.clip(bent + random.normal(0, 0.12, count), 0, 1)


def test_what_is_told_is_true_in_each_tenth_of_unseen_lines() -> None:
    told = Curve.fit(*lines(1_000, seed=1)).estimates((unseen := lines(20_000, seed=2))[0])
    true = unseen[1]
    assert all(one.low <= one.chrf <= one.high for one in told)
    for tenth in np.array_split(np.argsort([one.chrf for one in told]), 10):
        assert np.mean([told[n].chrf for n in tenth]) == pytest.approx(true[tenth].mean(), abs=2.5)
    inside = np.mean([one.low <= chrf <= one.high for one, chrf in zip(told, true, strict=True)])
    assert 0.75 < inside < 0.85
    assert np.mean([one.is_unusual for one in told]) == pytest.approx(0.01, abs=0.01)
    bent = lines(20_000, seed=2)[0] @ [4, 0.2, -1]
    assert np.corrcoef([one.chrf for one in told], 1 / (1 + np.exp(-2.5 - bent)))[0, 1] > 0.99


def test_the_weights_are_the_maximum_of_the_penalised_likelihood() -> None:
    rows, chrf = lines(300, seed=3)
    curve = Curve.fit(rows, chrf)
    inputs = np.c_[np.ones(300), (rows - curve.means) / curve.deviations]
    weights = np.array(curve.weights)
    residual = chrf / 100 - 1 / (1 + np.exp(-inputs @ weights))
    gradient = inputs.T @ residual - 0.25 * weights * [0, 1, 1, 1]
    assert gradient == pytest.approx([0, 0, 0, 0], abs=1e-3)


@pytest.mark.parametrize("chrf", [0.0, 100.0])
def test_lines_that_are_all_alike_have_a_curve(chrf: float) -> None:
    rows, all_alike = np.full((100, 3), 0.5), np.full(100, chrf)
    (told,) = Curve.fit(rows, all_alike).estimates(rows[:1])
    assert told.chrf == pytest.approx(chrf, abs=0.1)
    assert try_halves(rows, all_alike).correlation == 0


def test_intervals_of_good_text_reach_lines_without_a_fault() -> None:
    rows, chrf = lines(3_000, seed=9)
    is_perfect = np.random.default_rng(9).random(3_000) < 0.2
    chrf[is_perfect] = 100
    told = Curve.fit(rows[:1_000], chrf[:1_000]).estimates(rows[1_000:])
    inside = [one.low <= true <= one.high for one, true in zip(told, chrf[1_000:], strict=True)]
    assert 0.75 < np.mean(inside) < 0.92
    assert np.mean(inside, where=is_perfect[1_000:]) > 0.9


def test_an_interval_holds_its_estimate_even_if_a_few_lines_are_far_off() -> None:
    rows, chrf = lines(1_000, seed=8)[0], np.where(np.arange(1_000) % 20, 100.0, 0.0)
    assert all(one.low <= one.chrf <= one.high for one in Curve.fit(rows, chrf).estimates(rows))


def test_a_feature_that_never_changes_counts_for_nothing() -> None:
    rows, chrf = lines(300, seed=6)
    rows[:, 1] = math.log(49)  # whose deviation is not quite 0
    told = Curve.fit(rows, chrf).estimates(rows + np.eye(3)[1])
    assert np.mean([one.chrf for one in told]) == pytest.approx(chrf.mean(), abs=1)


@pytest.mark.parametrize(
    "damage",
    [
        {"weights": (1.0, 2.0, 3.0)},
        {"deviations": (1.0, 0.0, 1.0)},
        {"told": (0.5, 0.4, 0.6, 0.7, 0.8, 0.9)},
        {"means": (1.0,) * 2, "deviations": (1.0,) * 2, "weights": (1.0,) * 3},
        {"means": (1e300,) * 3},
        {"highs": (math.nan,) * 6},
    ],
)
def test_what_is_no_curve_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        replace(Curve.fit(*lines(100, seed=7)), **damage)


def test_a_trial_tells_each_half_by_the_other() -> None:
    rows, chrf = lines(1_000, seed=4)
    trial = try_halves(rows, chrf)
    assert [true for _, true in trial.fifths] == sorted(true for _, true in trial.fifths)
    assert all(abs(told - true) < 3 for told, true in trial.fifths)
    assert trial.correlation > 0.6
    few = [try_halves(*lines(100, seed=seed)).error for seed in range(10)]
    assert np.mean(few) > trial.error  # less text is told less well
    shuffled = np.random.default_rng(5).permutation(chrf)  # nothing to learn
    assert abs(try_halves(rows, shuffled).correlation) < 0.15


def test_features_count_the_end_of_each_segment_and_characters() -> None:
    row = features_of("ab cd", "xyz", -6.0, tokens=4, segments=2)
    assert row == [-1.0, math.log(3.5), math.log(4 / 6)]
    assert row == features_of("  ab \u3000 cd", "xyz\t", -6.0, tokens=4, segments=2)
