"""The pretended GPU does what a GPU does. `test_pretended_gpu.py` runs these tests on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pretended_gpu.cuda import counts
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


def captured(function: Callable[[], Tensor], **others: Any) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **others):
        result = function()
    return graph, result


def test_a_graph_runs_on_what_is_in_its_memory_by_then() -> None:
    x, table = torch.ones(3, device=GPU), torch.zeros(4, 3, device=GPU)
    graph, y = captured(lambda: table[1:3].add_(x * 2.0).sum(dim=0))
    table.zero_()
    x.copy_(torch.full((3,), 5.0))
    before = counts()
    graph.replay()
    after = counts()
    assert y.tolist() == [20.0, 20.0, 20.0]
    assert table[:, 0].tolist() == [0.0, 10.0, 10.0, 0.0]
    graph.replay()
    assert y.tolist() == [40.0, 40.0, 40.0]
    assert {name: after[name] - before[name] for name in ("operators", "graphs")} == {
        "operators": 0,
        "graphs": 1,
    }


def test_a_capture_changes_nothing_and_its_results_are_junk_until_a_replay() -> None:
    table, x = torch.zeros(4, 3, device=GPU), torch.ones(1, 3, device=GPU)
    torch.manual_seed(1)

    def changed() -> Tensor:
        summed = (x @ torch.ones(3, 3, device=GPU)).squeeze_(0)  # which changes the shape in place
        return table[2:].add_(summed).add_(torch.rand(3, device=GPU))

    graph, _ = captured(changed)
    assert not table.any()
    graph.replay()
    torch.manual_seed(1)
    expected = 3.0 + torch.rand(3, device=GPU)
    assert table.tolist() == [[0.0] * 3] * 2 + [expected.tolist()] * 2


def test_a_graph_may_be_replayed_with_gradients() -> None:
    weight = torch.ones(3, device=GPU, requires_grad=True)
    weight.grad = gradient = torch.zeros(3, device=GPU)
    x = torch.ones(3, device=GPU)

    def loss() -> Tensor:
        value = (weight * x).square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            weight.sub_(gradient, alpha=0.25)
        return value

    graph, value = captured(loss)
    with torch.no_grad():
        weight.fill_(1.0)
    gradient.zero_()
    x.fill_(2.0)
    graph.replay()
    assert value.item() == 12.0
    assert gradient.tolist() == [8.0] * 3
    assert weight.tolist() == [-1.0] * 3


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_capture_cannot_wait(wait: Callable[[Tensor], object]) -> None:
    x = torch.ones(3, device=GPU)
    with pytest.raises(RuntimeError, match="capturing"):
        captured(lambda: wait(x))  # type: ignore[arg-type, return-value]
    assert not torch.cuda.is_current_stream_capturing()
    wait(x)


@pytest.mark.parametrize("synchronize", ["synchronize", "stream", "event"])
def test_a_capture_cannot_synchronize(synchronize: str) -> None:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    of = {"stream": torch.cuda.current_stream(), "event": event}.get(synchronize, torch.cuda)
    with pytest.raises(RuntimeError, match="capturing"):
        captured(of.synchronize)  # type: ignore[attr-defined]


def test_a_copy_from_the_host_is_not_part_of_a_graph() -> None:
    pinned = torch.ones(3).pin_memory()
    with pytest.raises(RuntimeError, match="capturing"):
        captured(lambda: pinned.to(GPU, non_blocking=True))


def test_memory_that_was_freed_after_the_capture_is_found() -> None:
    x, held = torch.ones(3, device=GPU), torch.ones(3, device=GPU)
    graphs = [captured(lambda: x[1:] + held[1:])[0] for _ in range(2)]  # which do not hold it
    graphs[0].replay()
    x = torch.ones(3, device=GPU)
    for graph in graphs:
        with pytest.raises(RuntimeError, match="freed"):
            graph.replay()


def test_what_python_read_is_part_of_a_graph_and_new_memory_is_new_each_time() -> None:
    factor = 2.0
    x = torch.ones(3, device=GPU)
    graph, y = captured(lambda: torch.empty(3, device=GPU).copy_(x * factor))
    unwritten, empty = captured(lambda: torch.empty(3, device=GPU))
    factor = 3.0
    graph.replay()
    assert y.tolist() == [2.0] * 3
    empty.fill_(1.0)
    unwritten.replay()
    assert empty.isnan().all()


def test_graphs_of_a_pool_spoil_the_results_of_later_ones() -> None:
    pool, x = torch.cuda.graph_pool_handle(), torch.ones(3, device=GPU)
    first, y = captured(lambda: x + 1.0, pool=pool)
    second, z = captured(lambda: x + 2.0, pool=pool)
    first.replay()
    second.replay()
    assert (y.tolist(), z.tolist()) == ([2.0] * 3, [3.0] * 3)
    first.replay()
    assert z[0] > 1e36
    assert first.pool() == second.pool()
