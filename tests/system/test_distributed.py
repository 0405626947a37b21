"""The processes of a run: free alone, and in agreement when there are two."""

import sys
from typing import Any

import pytest
import torch
from toy_training import ALONE

from nmt.system.distributed import Ranks


def test_alone_nothing_is_sent_and_nothing_changes() -> None:
    # No process group was made, so any message would fail.
    tensor = torch.tensor([1.0, 2.0])
    ALONE.join()
    assert not torch.distributed.is_initialized()
    assert ALONE.sum_(tensor) is tensor
    assert ALONE.broadcast_(tensor) is tensor
    assert tensor.tolist() == [1.0, 2.0]
    assert [ALONE.any(False), ALONE.any(True)] == [False, True]
    value = {"a": object()}
    assert ALONE.gather(value) == [value]
    ALONE.leave()
    assert ALONE.is_first


def test_torchrun_s_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert Ranks.from_environment() == ALONE
    for name, value in zip(names, ("11", "3", "8", "16"), strict=True):
        monkeypatch.setenv(name, value)
    ranks = Ranks.from_environment()
    assert ranks == Ranks(rank=11, local_rank=3, local_world_size=8, world_size=16)
    assert not ranks.is_first


def test_two_processes_agree(two_ranks: list[Any]) -> None:
    assert [found["rank"] for found in two_ranks] == [[0, 0, 2, 2], [1, 1, 2, 2]]
    assert [found["is_first"] for found in two_ranks] == [True, False]
    for found in two_ranks:
        assert found["same_tensor"]
        assert found["sum"] == [2.0, 10.0]
        assert found["broadcast"] == [5]
        assert found["any"] == [False, True, True, True]
        # Values arrive in order of rank.
        assert found["gather"] == [{"rank": 0, "texts": []}, {"rank": 1, "texts": ["ä" * 100]}]
        assert found["gather_empty"] == [[], []]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_summed_while_backward_goes_on(two_ranks: list[Any], dtype: str) -> None:
    for rank, found in enumerate(two_ranks):
        # The second time, rank 1 has nothing to do, and still takes part.
        assert found[f"gradient_sums torch.{dtype}"] == [True, True, True, rank == 0, True, True]


def test_an_error_of_one_rank_is_raised_on_both(two_ranks: list[Any]) -> None:
    own, heard = ["UsageError", "no such folder"], "no such folder"
    assert two_ranks[0]["together"] == [[], own, ["UsageError", f"rank 1: {heard}"]]
    assert two_ranks[1]["together"] == [[], ["UsageError", f"rank 0: {heard}"], own]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_no_thread_outlives_the_group(two_ranks: list[Any]) -> None:
    # One that does can abort the process at its end, when all is done and saved.
    for found in two_ranks:
        assert [name for name in found["threads_before"] if "gloo" in name]
        assert not [name for name in found["threads"] if "gloo" in name]
