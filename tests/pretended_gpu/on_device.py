"""The pretended GPU does what a GPU does. `test_pretended_gpu.py` runs these tests on it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

GPU = torch.device("cuda")


def test_an_operator_runs_on_the_cpu_and_its_result_is_on_the_gpu() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=GPU)
    product = x @ x
    assert product.is_cuda
    assert product.tolist() == [[7.0, 10.0], [15.0, 22.0]]


def test_a_view_shares_memory_and_an_output_that_was_given_grows() -> None:
    x = torch.arange(6.0, device=GPU)
    x.view(2, 3)[1].fill_(9.0)
    assert x.tolist() == [0.0, 1.0, 2.0, 9.0, 9.0, 9.0]
    out = torch.empty(0, device=GPU)
    torch.add(x, 1.0, out=out)
    assert out.tolist() == [1.0, 2.0, 3.0, 10.0, 10.0, 10.0]


def test_two_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=GPU) * torch.ones(3)


def test_new_memory_is_not_zero() -> None:
    assert torch.empty(3, device=GPU).isnan().all()


def test_a_copy_to_pinned_memory_is_there_after_an_event_or_a_stream() -> None:
    x = torch.arange(3.0, device=GPU)
    for wait in ("event", "stream"):
        copy = torch.empty(3, pin_memory=True).copy_(x, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        late = torch.empty(3, pin_memory=True).copy_(x, non_blocking=True)
        assert copy[0] > 1e36
        if wait == "event":
            event.synchronize()
            assert late[0] > 1e36, "it was begun after the event"
        else:
            torch.cuda.current_stream().synchronize()
            assert late.tolist() == [0.0, 1.0, 2.0]
        assert copy.tolist() == [0.0, 1.0, 2.0]


def test_pinned_memory_must_stay_as_it_is_until_it_was_copied() -> None:
    pinned = torch.ones(3).pin_memory()
    pinned.to(GPU, non_blocking=True)
    pinned[0] = 2.0
    with pytest.raises(RuntimeError, match="pinned memory"):
        torch.cuda.synchronize()


WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "to the host": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "blocking": lambda _: torch.ones(3).to(GPU),
    "not pinned": lambda _: torch.ones(3).to(GPU, non_blocking=True),
    "pinned but blocking": lambda _: torch.ones(3).pin_memory().to(GPU),
    "another type": lambda _: torch.ones(3).long().pin_memory().to(GPU, torch.float32, True),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "index of the host": lambda x: x[torch.tensor([1])],
    "one element set": lambda x: x.__setitem__(1, 5.0),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_waits_can_be_forbidden(wait: Callable[[Tensor], object]) -> None:
    x = torch.ones(3, device=GPU)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            wait(x)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    wait(x)


def test_what_does_not_wait_is_allowed() -> None:
    torch.cuda.set_sync_debug_mode("error")
    try:
        x = torch.ones(3).pin_memory().to(GPU, non_blocking=True)
        x[1:2] = 5.0
        (x * 2.0).masked_fill(x > 4, 0.0)
        torch.empty(3, pin_memory=True).copy_(x, non_blocking=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert x.tolist() == [1.0, 5.0, 1.0]


def test_memory_is_counted_and_has_a_limit() -> None:
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.zeros(1000, device=GPU)
    assert torch.cuda.memory_allocated() - before == 4096  # a multiple of 512
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() - before >= 4096
    total = torch.cuda.get_device_properties(GPU).total_memory
    torch.cuda.set_per_process_memory_fraction((before + 1e6) / total)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1_000_000, device=GPU)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
