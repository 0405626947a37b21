"""Keys and values stay with their hypotheses when rows are reordered."""

import numpy as np
import pytest
import torch

from nmt.models.kv_cache import CacheRows, KeyValueCache, move_, moved

H, K = 4, 3


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_only_positions_that_differ_are_copied() -> None:
    def step(cache: KeyValueCache, rows: list[int]) -> list[list[int]]:
        """Return what is copied: from a row, to a row, which position."""
        cache.attend(0, [normal(3, 3, H, K)])
        cache.advance()
        moves = cache.select(np.array(rows))
        cache.move(torch.from_numpy(moves))
        return sorted([source % 3, target % 3, target // 3] for source, target in moves.T.tolist())

    cache = KeyValueCache(1)
    assert step(cache, [0, 0, 0]) == [[0, 1, 0], [0, 2, 0]]  # all continue the first
    # The second is the first's other child. Their first position is the same.
    assert step(cache, [0, 0, 2]) == [[0, 1, 1]]
    assert step(cache, [2, 1, 0]) == [[0, 2, 1], [0, 2, 2], [2, 0, 1], [2, 0, 2]]


def test_a_child_takes_its_parent_s_row_or_one_without_children() -> None:
    places = CacheRows(2)
    # Each becomes three, in order.
    assert places.select(np.array([0, 0, 0, 1, 1, 1]), 2).tolist() == [0, 0, 0, 1, 1, 1]
    assert places.rows.tolist() == [0, 1, 2, 3, 4, 5]
    assert places.select(np.array([2, 0, 2, 3, 4, 5]), 2).tolist() == [0, 2, 2, 3, 4, 5]
    assert places.rows.tolist() == [2, 0, 1, 3, 4, 5]
    # The second sentence leaves. Hypotheses 1 1 0 of the first are in rows 0 0 2.
    assert places.select(np.array([1, 1, 0]), 1).tolist() == [0, 0, 2]
    assert places.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("count", "held"), [(13, 26), (6, 20), (5, 20), (4, 8)])
def test_rows_are_selected_in_any_order_and_few_hold_little_memory(count: int, held: int) -> None:
    for seed in range(20):
        x = torch.arange(20.0).view(2, 10)
        rows = torch.randint(10, (count,), generator=torch.Generator().manual_seed(seed))
        expected = x[:, rows].clone()
        selected = move_(x, 1, torch.from_numpy(moved(rows.numpy())), count)
        assert torch.equal(selected, expected)
        assert selected.untyped_storage().nbytes() == 4 * held
