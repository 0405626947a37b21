"""Keys and values of hypotheses stay with them, whatever happens to their rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nmt.models.attention import attend
from nmt.models.kv_cache import KeyValueCache, first_of, reorder_

H, K = 4, 3


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("window", [0, 1, 5])
@pytest.mark.parametrize("apart", [False, True])
def test_the_cache_attends_to_its_window_of_what_was_added_and_reorders_it(
    apart: bool, window: int
) -> None:
    torch.manual_seed(5)
    layers, before, after = 2, 40, 3  # beyond its first room of 16, and the next
    width = K - 1 if apart else K  # of values
    qkv = normal(before, layers, 4, 3, H, K)
    cache = KeyValueCache(layers, window)

    def check(history: torch.Tensor) -> None:
        """Step with the last of the history (t, layers, N, 3, H, K)."""
        for layer in range(layers):
            new = history[-1, layer]
            found = cache.attend(layer, [new[:, :2], new[:, 2:, :, :width]] if apart else [new])
            query = history[-1, layer, :, 0, :, None]  # (N, H, 1, K)
            seen = history[-window - 1 :] if window else history
            keys, values = seen[:, layer, :, 1:].permute(2, 1, 3, 0, 4)  # (N, H, S, K)
            expected = attend(query, keys, values[..., :width], None)[:, :, 0].flatten(1)
            torch.testing.assert_close(found, expected)
        cache.advance()

    for t in range(before):
        check(qkv[: t + 1])
    assert cache.length == before
    selections = [[0, 2, 2, 3], [1, 0], [1, 1, 0, 0, 1]]  # one moved; fewer; more than before
    selections += torch.randint(5, (20, 5), generator=torch.Generator().manual_seed(7)).tolist()
    for rows in selections:
        cache.select(torch.tensor(rows))
        qkv = qkv[:, :, rows]
        for _ in range(after):
            qkv = torch.cat((qkv, normal(1, layers, len(rows), 3, H, K)))
            check(qkv)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What caches copy from here on: from a row, to a row, which position."""
    copied: list[tuple[int, ...]] = []
    copy = KeyValueCache._copy

    def note_and_copy(self: KeyValueCache, moves: NDArray[np.int64]) -> None:
        copied.extend(map(tuple, moves.T.tolist()))
        copy(self, moves)

    monkeypatch.setattr(KeyValueCache, "_copy", note_and_copy)
    return copied


def test_what_a_place_holds_already_is_not_copied(copied: list[tuple[int, ...]]) -> None:
    cache = KeyValueCache(1)

    def step(rows: list[int]) -> None:
        cache.attend(0, [normal(3, 3, H, K)])
        cache.advance()
        cache.select(torch.tensor(rows))

    step([0, 0, 0])  # all go on from the first
    assert copied == [(0, 1, 0), (0, 2, 0)]
    copied.clear()
    step([0, 0, 2])  # the second is the first's other child
    assert copied == [(0, 1, 1)]  # their first position is one anyway
    copied.clear()
    step([2, 1, 0])
    assert sorted(copied) == [(0, 2, 1), (0, 2, 2), (2, 0, 1), (2, 0, 2)]


def test_what_no_query_will_see_is_not_copied(copied: list[tuple[int, ...]]) -> None:
    cache = KeyValueCache(1, window=2)
    for _ in range(5):
        cache.attend(0, [normal(2, 3, H, K)])
        cache.advance()
    cache.select(torch.tensor([1, 1]))
    assert copied == [(1, 0, 3), (1, 0, 4)]  # the next query, at 5, sees 3 and 4


def test_reordering_puts_rows_in_their_places() -> None:
    random = torch.Generator().manual_seed(6)
    for _ in range(20):
        x = torch.randn(3, 7, 2, generator=random)
        rows = torch.randint(
            7, (int(torch.randint(1, 8, (1,), generator=random)),), generator=random
        )
        expected = x[:, rows].clone()
        reorder_(x, 1, rows)
        assert torch.equal(x[:, : len(rows)], expected)


def test_the_first_rows_hold_no_memory_of_many_others() -> None:
    x = torch.arange(20.0).view(2, 10)
    for count, held in ((6, 20), (5, 20), (4, 8)):
        first = first_of(x, 1, count)
        assert torch.equal(first, x[:, :count])
        assert first.untyped_storage().nbytes() == 4 * held
