"""Links are the grown intersection of IBM Model 1 in both directions, by loops."""

from typing import cast

import numpy as np
import pytest
from pairs import TextPairs
from reference import grown_links, ibm_model_1

from nmt.data.batches import NO_LINK
from nmt.data.folder import PairDataset
from nmt.data.shards import TokenRows
from nmt.lexical.alignment_links import TokenLinker

SRC, TGT = 9, 12

Pair = tuple[list[int], list[int]]
Probs = dict[tuple[int, int], float]


def linked(linker: TokenLinker, pairs: list[Pair]) -> list[list[int]]:
    """The position of each target token's source, pair by pair."""
    src, tgt = (TokenRows.from_lists(side, token_bytes=2) for side in zip(*pairs, strict=True))
    return [part.tolist() for part in np.split(linker(src, tgt), np.cumsum(tgt.lengths)[:-1])]


def linker_of(forward: Probs, backward: Probs) -> TokenLinker:
    """A linker with t(target | source) and t(source | target) by (source, target)."""
    keys = sorted(forward)
    return TokenLinker(
        np.array([source * TGT + target for source, target in keys]),
        np.array([forward[key] for key in keys]),
        np.array([backward[key] for key in keys]),
        TGT,
    )


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ([4, 5], [8, 9], [0, 1]),
        ([5, 4], [8, 9], [1, 0]),
        # Of equal tokens, the nearest to the diagonal; of two as near, the first.
        ([4, 6, 4], [8, 11, 8], [0, NO_LINK, 2]),
        ([4, 4], [8], [0]),
        # 10 prefers 5, which prefers 9: it joins its neighbour's link.
        ([4, 5], [8, 9, 10], [0, 1, 1]),
        # Its neighbour has no link here, so it has none either.
        ([4, 5], [9, 11, 10], [1, NO_LINK, NO_LINK]),
        ([7], [11], [NO_LINK]),  # nothing is known of them
    ],
)
def test_links_by_hand(source: list[int], target: list[int], expected: list[int]) -> None:
    forward = {(4, 8): 0.9, (5, 9): 0.8, (5, 10): 0.2}
    backward = {(4, 8): 0.9, (5, 9): 0.8, (5, 10): 0.7}
    assert linked(linker_of(forward, backward), [(source, target)]) == [expected]


def test_links_are_those_of_loops_and_of_each_pair_alone() -> None:
    random = np.random.default_rng(3)
    known = [(s, t) for s in range(4, SRC) for t in range(4, TGT) if random.random() < 0.6]
    forward, backward = (
        {key: float(random.choice([0.1, 0.3, 0.5])) for key in known} for _ in range(2)
    )
    pairs: list[Pair] = [
        (
            random.integers(4, SRC, random.integers(1, 8)).tolist(),
            random.integers(4, TGT, random.integers(1, 8)).tolist(),
        )
        for _ in range(200)
    ]
    linker = linker_of(forward, backward)
    found = linked(linker, pairs)
    assert found == [grown_links(*pair, forward, backward) for pair in pairs]
    assert found[:20] == [linked(linker, [pair])[0] for pair in pairs[:20]]
    assert any(NO_LINK in links for links in found)
    assert any(len(set(links)) < len(links) for links in found if NO_LINK not in links)


def test_both_directions_are_learnt() -> None:
    random = np.random.default_rng(1)
    sources = [random.integers(4, SRC, random.integers(1, 5)).tolist() for _ in range(30)]
    pairs = [(source, [*(token + 2 for token in source), 6]) for source in sources]
    linker = TokenLinker.learn(cast(PairDataset, TextPairs(pairs)), SRC, TGT)
    forward = ibm_model_1(pairs, iterations=5)
    backward = ibm_model_1([(target, source) for source, target in pairs], iterations=5)
    expected = {
        (source, target): (prob, backward[target, source])
        for (source, target), prob in forward.items()
        if source is not None and min(prob, backward[target, source]) >= 1e-4
    }
    entries = zip(
        [divmod(key, TGT) for key in linker.keys.tolist()],
        linker.forward.tolist(),
        linker.backward.tolist(),
        strict=True,
    )
    found = {key: probs for key, *probs in entries}
    assert found.keys() == expected.keys()
    for key, probs in found.items():
        assert probs == pytest.approx(expected[key], abs=1e-12)
