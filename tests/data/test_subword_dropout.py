"""BPE dropout: the same text in other tokens, as often as the merges say, and repeatable."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from nmt.data.shards import TokenRows
from nmt.data.subword_dropout import SubwordDropout
from nmt.data.vocabulary import Vocabulary, learn_vocabulary

LINES = ["the house and the tree", "a mouse in the house", "trees and houses", "the the the"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn_vocabulary(LINES, vocab_size=300, symbols=["<2de>"])


def test_merges_are_those_that_bpe_makes_first(vocabulary: Vocabulary) -> None:
    pieces = vocabulary.tokens(range(len(vocabulary)))
    left, right = vocabulary.merges()[pieces.index("\u2581the")]
    # "th" or "he" was learnt before "the", from these lines by hand: "▁t" (6), "he" (5).
    assert [pieces[left], pieces[right]] == ["\u2581t", "he"]


@pytest.mark.parametrize("p", [0.1, 0.5, 0.99])
def test_the_text_stays_what_it_was_and_empty_lines_empty(vocabulary: Vocabulary, p: float) -> None:
    lines = ["", *LINES, ""]
    rows = TokenRows.from_lists(vocabulary.encode(lines), token_bytes=2)
    dropped = SubwordDropout(vocabulary, p)(rows, np.random.default_rng(1))
    assert len(dropped.ids) > len(rows.ids)
    assert dropped.ids.dtype == rows.ids.dtype
    assert vocabulary.decode(dropped.lists()) == lines
    assert dropped.lengths[[0, -1]].tolist() == [0, 0]


def test_segmentations_are_as_likely_as_independent_merges_make(vocabulary: Vocabulary) -> None:
    """Against a brute force over all subsets of the merges of one token."""
    p, draws = 0.3, 20_000
    pieces = vocabulary.tokens(range(len(vocabulary)))
    token = max(range(len(vocabulary)), key=lambda t: len(pieces[t]) * (pieces[t][0] != "<"))
    merges = vocabulary.merges()

    def nodes(t: int) -> list[int]:
        left, right = merges[t]
        return [] if left < 0 else [*nodes(left), *nodes(right), t]

    tree = nodes(token)
    assert len(tree) >= 4
    assert len(set(tree)) == len(tree)  # so that a merge can be named by its token

    def parts(t: int, undone: frozenset[int]) -> list[int]:
        if not undone & set(nodes(t)):
            return [t]
        left, right = merges[t]
        return [*parts(left, undone), *parts(right, undone)]

    expected: dict[tuple[int, ...], float] = defaultdict(float)
    for flags in itertools.product([False, True], repeat=len(tree)):
        undone = frozenset(t for t, flag in zip(tree, flags, strict=True) if flag)
        chance = p ** len(undone) * (1 - p) ** (len(tree) - len(undone))
        expected[tuple(parts(token, undone))] += chance
    rows = TokenRows.from_lists([[token]] * draws, token_bytes=2)
    found = Counter(
        map(tuple, SubwordDropout(vocabulary, p)(rows, np.random.default_rng(2)).lists())
    )
    assert found.keys() <= expected.keys()
    for segmentation, chance in expected.items():
        deviation = (draws * chance * (1 - chance)) ** 0.5
        assert abs(found[segmentation] - draws * chance) < 5 * deviation + 1
