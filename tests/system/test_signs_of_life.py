"""Signs of life of ranks: who is lost, and who is slow or has ended by itself."""

import threading
from datetime import timedelta

import pytest
import torch.distributed as dist

from nmt.system import signs_of_life
from nmt.system.signs_of_life import SignsOfLife

PLACES = ["rank 0 on north", "rank 1 on east", "rank 2 on west"]
LIMIT = signs_of_life._MOST_MISSED


@pytest.fixture
def ranks() -> list[SignsOfLife]:
    store = dist.HashStore()  # type: ignore[attr-defined]
    store.set_timeout(timedelta(seconds=60))
    ranks = [SignsOfLife(store, rank, PLACES) for rank in range(3)]
    for rank in range(3):
        store.set(ranks[rank]._keys[rank], "0")
    return ranks


def tick(ranks: list[SignsOfLife], awake: tuple[int, ...], times: int, sign: int = 1) -> list[str]:
    """Let some ranks leave and count signs; return what the last count finds, by rank."""
    found = [""] * len(ranks)
    for step in range(times):
        for rank in awake:
            ranks[rank].exchange(sign + step)
        found = [one.lost() if rank in awake else "" for rank, one in enumerate(ranks)]
    return found


def test_a_rank_without_a_sign_is_lost_after_so_many_times(ranks: list[SignsOfLife]) -> None:
    tick(ranks, (0, 1, 2), 5)
    assert tick(ranks, (0, 1), LIMIT, sign=100) == ["", "", ""]
    assert tick(ranks, (0, 1), 1, sign=200) == [PLACES[2], PLACES[2], ""]
    assert tick(ranks, (0, 1, 2), 2, sign=300) == ["", "", ""]  # it was slow


def test_a_rank_that_ended_by_itself_is_not_lost(ranks: list[SignsOfLife]) -> None:
    tick(ranks, (0, 1, 2), 3)
    ranks[2].watch(lambda _: None)
    ranks[2].end()
    assert tick(ranks, (0, 1), 3 * LIMIT, sign=100) == ["", "", ""]


def test_a_silent_store_is_lost(ranks: list[SignsOfLife], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "192.0.2.1")
    tick(ranks, (0, 1, 2), 3)
    tick(ranks, (0, 2), 2, sign=100)  # the sign of rank 1 comes a moment later
    found = [ranks[0].lost() for _ in range(LIMIT - 1)]  # what was read stays as it was
    assert found[-2] == ""
    assert "192.0.2.1" in found[-1]


def test_lost_ranks_end_a_run(ranks: list[SignsOfLife], monkeypatch: pytest.MonkeyPatch) -> None:
    # The others leave no signs.
    monkeypatch.setattr(signs_of_life, "EVERY", 0.1)  # a store that waits so long is silent
    heard, said = threading.Event(), list[str]()

    def end_run(reason: str) -> None:
        said.append(reason)
        ranks[0].end()
        heard.set()

    ranks[0].watch(end_run)
    assert heard.wait(60)
    assert ", ".join(PLACES[1:]) in said[0]
