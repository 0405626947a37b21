"""Intervals and tests: sacreBLEU's, and what must hold for any."""

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from nmt.scoring.metrics import make_metrics
from nmt.scoring.options import METRICS, Resampling
from nmt.scoring.significance import Comparison, compare, confidence

WORDS = ["der", "die", "das", "Hund", "Katze", "Haus", "sieht", "hört", "klein", "alt", "und"]
ORACLES: dict[str, Callable[[], sacrebleu.metrics.base.Metric]] = {
    "bleu": sacrebleu.BLEU,
    "chrf": sacrebleu.CHRF,
    "chrf++": lambda: sacrebleu.CHRF(word_order=2),
    "ter": sacrebleu.TER,
}


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    """Replace a share of all words by others."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else w for w in line.split())
        for line in lines
    ]


REFERENCE = noisy(["x " * (5 + number % 13) for number in range(60)], 1.0, seed=1)
GOOD, FAIR = noisy(REFERENCE, 0.2, seed=2), noisy(REFERENCE, 0.28, seed=3)


def comparison(name: str, ours: list[str], theirs: list[str], resampling: Resampling) -> Comparison:
    metric = make_metrics([name], [REFERENCE])[name]
    return compare(metric.value, metric.count(ours), metric.count(theirs), resampling)


@pytest.mark.parametrize("name", METRICS)
def test_intervals_are_sacrebleus(name: str) -> None:
    metric = make_metrics([name], [REFERENCE])[name]
    found = confidence(metric.value, metric.count(GOOD), Resampling(samples=200))
    expected = ORACLES[name]().corpus_score(GOOD, [REFERENCE], n_bootstrap=200)
    assert found.mean == pytest.approx(expected._mean)
    assert (found.upper - found.lower) / 2 == pytest.approx(expected._ci)


@pytest.mark.parametrize("name", METRICS)
def test_p_values_are_sacrebleus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    found = comparison(name, GOOD, FAIR, Resampling(samples=100, trials=200, seed=7))
    for kind, number, p in (("bs", 100, found.p_bootstrap), ("ar", 200, found.p_randomisation)):
        systems: list[tuple[str, Sequence[str]]] = [("baseline", FAIR), ("output", GOOD)]
        metrics = {"metric": ORACLES[name]()}
        test = PairedTest(systems, metrics, [REFERENCE], test_type=kind, n_samples=number)
        _, results = test()
        (label,) = results.keys() - {"System"}
        baseline, output = results[label]
        assert not isinstance(output, str) and not isinstance(baseline, str)
        assert p == pytest.approx(output.p_value)
        assert found.score == pytest.approx(baseline.score)
        assert found.difference == pytest.approx(output.score - baseline.score)


def test_the_interval_leaves_equally_many_samples_out_at_either_side() -> None:
    # The mean of lines that are worth 0 to 99, of which the draw picks 100.
    counts = [[float(value), 1.0] for value in range(100)]
    found = confidence(lambda sums: sums[0] / sums[1], counts, Resampling(level=80))
    generator = np.random.default_rng(12345)
    means = np.sort([generator.choice(100, size=100).mean() for _ in range(1000)])
    assert (found.lower, found.upper) == pytest.approx((means[100], means[-101]))


@pytest.mark.parametrize("lines", [1, 2, 5])
def test_few_lines_say_little(lines: int) -> None:
    # All lines are won by 1. Of 2^N ways to swap them, two are as far apart as the systems: none
    # swapped, and all. sacreBLEU counts only what is further apart, and has the lowest p there is.
    ours, theirs = [[1.0, 4.0]] * lines, [[0.0, 4.0]] * lines
    same = [[2.0, 4.0]] * 7
    found = compare(lambda sums: sums[0], ours + same, theirs + same, Resampling())
    assert found.difference == lines
    assert min(found.p_bootstrap, found.p_randomisation) >= 2 / 2**lines
    assert found.p_randomisation == 2 / 2**lines


def test_a_true_difference_is_told_from_chance() -> None:
    resampling = Resampling(samples=400, trials=400)
    apart = comparison("chrf", GOOD, noisy(REFERENCE, 0.8, seed=4), resampling)
    assert apart.confidence.lower > 0
    assert apart.p_bootstrap == apart.p_randomisation == pytest.approx(1 / 401)
    alike = comparison("chrf", GOOD, noisy(REFERENCE, 0.2, seed=5), resampling)
    assert min(alike.p_bootstrap, alike.p_randomisation) > 0.05
    assert alike.confidence.lower < 0 < alike.confidence.upper
