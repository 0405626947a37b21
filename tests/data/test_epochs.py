"""The order of an epoch, and the updates that it is cut into."""

from collections import Counter

import numpy as np
import pytest
from pairs import Lengths, with_eos

from nmt.data import epochs as epochs_module
from nmt.data.epochs import Epochs, Indices, Permutation, check_budget, plan_pool
from nmt.errors import UsageError


def plan(pairs: Lengths, *, batch_tokens: int) -> list[Indices]:
    order = Epochs(pairs.shares, seed=1)
    return plan_pool(pairs, order, batch_tokens=batch_tokens, epoch=0, pool=0)


def updates(found: list[Indices]) -> list[list[int]]:
    return [update.tolist() for update in found]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 17, 64, 1000, 65_536, 65_537])
def test_every_number_stands_at_one_place_which_can_be_asked_for(size: int) -> None:
    permutation = Permutation(size, (1, 2))
    order = permutation.take(np.arange(size))
    assert np.array_equal(np.sort(order), np.arange(size))
    assert np.array_equal(permutation.take(np.array([size - 1, 0])), order[[size - 1, 0]])


def test_sizes_beyond_32_bits_are_in_reach() -> None:
    images = Permutation(10**12, (1,)).take(np.arange(1000))
    assert len(np.unique(images)) == 1000
    assert 0 <= images.min() <= images.max() < 10**12


def test_every_number_is_as_likely_at_every_place() -> None:
    size, draws = 10, 2000
    counts = np.zeros((size, size))
    for seed in range(draws):
        counts[np.arange(size), Permutation(size, (seed,)).take(np.arange(size))] += 1
    expected = draws / size
    chi_square = ((counts - expected) ** 2 / expected).sum()
    # (size - 1)^2 degrees of freedom: mean that, standard deviation sqrt(2) * (size - 1).
    assert abs(chi_square - (size - 1) ** 2) < 5 * 2**0.5 * (size - 1)


@pytest.fixture
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs_module, "POOL_PAIRS", 100)


def visited(order: Epochs, epoch: int) -> list[int]:
    return [pair for pool in range(order.pools) for pair in order.pool(epoch, pool).tolist()]


@pytest.mark.usefixtures("small_pools")
@pytest.mark.parametrize(("pairs", "pools"), [(1, 1), (149, 1), (151, 2), (1000, 10), (1049, 10)])
def test_the_pools_of_an_epoch_hold_each_pair_once(pairs: int, pools: int) -> None:
    order = Epochs([(pairs, 1.0)], seed=3)
    assert order.pools == pools
    assert sorted(visited(order, 5)) == list(range(pairs))
    sizes = [len(order.pool(5, pool)) for pool in range(pools)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.usefixtures("small_pools")
def test_pools_are_drawn_from_all_pairs_anew_in_each_epoch() -> None:
    order = Epochs([(1000, 1.0)], seed=3)
    first, second = set(order.pool(0, 0).tolist()), set(order.pool(1, 0).tolist())
    # A tenth of a tenth is in both: 10 of 1,000, with a standard deviation of 2.8.
    assert len(first & second) < 10 + 5 * 2.8
    assert visited(order, 0) == visited(Epochs([(1000, 1.0)], seed=3), 0)
    assert visited(order, 0) != visited(Epochs([(1000, 1.0)], seed=4), 0)


@pytest.mark.usefixtures("small_pools")
def test_weights_say_how_often_an_epoch_visits_a_pair() -> None:
    order = Epochs([(50, 1.0), (20, 3.0), (40, 0.5), (30, 2.4)], seed=1)
    assert order.visits == 50 + 60 + 20 + 72
    counts = Counter(visited(order, 0))
    assert [counts[pair] for pair in range(50)] == [1] * 50
    assert [counts[pair] for pair in range(50, 70)] == [3] * 20
    assert Counter(counts[pair] for pair in range(70, 110)) == {0: 20, 1: 20}
    assert Counter(counts[pair] for pair in range(110, 140)) == {2: 18, 3: 12}


def test_which_pairs_a_fraction_takes_changes_with_the_epoch() -> None:
    order = Epochs([(40, 0.5)], seed=1)
    halves = [frozenset(visited(order, epoch)) for epoch in range(20)]
    assert len(set(halves)) == 20
    taken = Counter(pair for half in halves for pair in half)
    # 20 draws of one half: 10 each, with a standard deviation of 2.2.
    assert len(taken) == 40
    assert all(abs(count - 10) < 5 * 2.2 for count in taken.values())


def test_an_update_is_cut_where_either_side_is_full() -> None:
    pairs = with_eos(*[(1, 7), (6, 2), (3, 5), (4, 4), (9, 1), (2, 8)] * 5)
    expected, src, tgt = list[list[int]](), 99, 99
    for pair in Epochs(pairs.shares, seed=1).pool(0, 0).tolist():
        src, tgt = src + int(pairs.src[pair]) + 1, tgt + int(pairs.tgt[pair]) + 1
        if max(src, tgt) > 13:
            expected.append([])
            src, tgt = int(pairs.src[pair]) + 1, int(pairs.tgt[pair]) + 1
        expected[-1].append(pair)
    assert updates(plan(pairs, batch_tokens=13)) == expected


@pytest.mark.parametrize("lengths", [((3, 12), (4, 5)), ((12, 3), (4, 5))])
def test_a_pair_above_the_budget_is_a_clear_error(lengths: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(UsageError, match=r"batch_tokens is 11.*12 tokens; raise batch_tokens"):
        plan(with_eos(*lengths), batch_tokens=11)
    assert len(plan(with_eos(*lengths), batch_tokens=12)) > 0
    with pytest.raises(UsageError, match="batch_tokens is 11"):
        check_budget(11, 12)
