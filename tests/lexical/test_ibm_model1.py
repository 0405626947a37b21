"""The lexicon is IBM Model 1, by loops."""

from typing import Any, cast

import numpy as np
import pytest
from pairs import TextPairs
from reference import ibm_model_1

from nmt.data.folder import PairDataset
from nmt.lexical import ibm_model1
from nmt.lexical.ibm_model1 import LEXICON_STEPS, Lexicon, learn_lexicon

SRC, TGT = 9, 12


def some_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    """Targets say their sources in other numbers, with noise."""
    random = np.random.default_rng(1)
    pairs = []
    for _ in range(count):
        source = random.integers(4, SRC, random.integers(1, 7)).tolist()
        target = [*(token + 2 for token in source), *random.integers(4, TGT, 2).tolist()]
        pairs.append((source, target))
    return pairs


def learn(pairs: list[tuple[list[int], list[int]]], **options: Any) -> Lexicon:
    return learn_lexicon(cast(PairDataset, TextPairs(pairs)), SRC, TGT, **options)


@pytest.mark.parametrize("chunk", [7, 1_000])
def test_probabilities_are_of_ibm_model_1(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ibm_model1, "_CHUNK", chunk)
    pairs, steps = some_pairs(40), list[int]()
    found = learn(pairs, on_progress=steps.append)
    assert sum(steps) == LEXICON_STEPS
    expected = ibm_model_1(pairs, iterations=5)
    entries = list(zip(found.sources.tolist(), found.targets.tolist(), strict=True))
    assert set(entries) == {pair for pair in expected if pair[0] is not None}
    for pair, prob in zip(entries, found.probs, strict=True):
        assert prob == pytest.approx(expected[pair], abs=1e-12)


def test_the_best_are_ordered_by_probability_then_id() -> None:
    found = Lexicon(
        sources=np.array([1, 1, 1, 1, 3]),
        targets=np.array([5, 6, 7, 8, 9]),
        probs=np.array([0.2, 0.3, 0.3, 0.2, 1.0]),
        target_counts=np.zeros(10, np.int64),
    )
    assert found.best(3, 4).tolist() == [[-1] * 3, [6, 7, 5], [-1] * 3, [9, -1, -1]]


def test_of_too_many_pairs_some_are_taken_evenly_and_targets_counted() -> None:
    counts = learn([([4], [5, 5, 7]), ([4, 6], [5])]).target_counts
    assert counts.tolist() == [0, 0, 0, 0, 0, 3, 0, 1, 0, 0, 0, 0]
    # Each pair has (1 + 1) * 1 links: 20 in all, so that every fourth pair is taken.
    found = learn([([4], [4 + number % 8]) for number in range(10)], most_links=5)
    assert found.target_counts.tolist() == [0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]
