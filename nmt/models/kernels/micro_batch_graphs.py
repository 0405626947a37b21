"""CUDA graphs of micro-batches: forward, loss and backward are launched by one call.

A graph repeats kernels on the same memory, with the same sizes. So micro-batches have a fixed shape
and are copied to one place, and no step of the host may depend on what is in them. There is a graph
for each bound on the lengths of sentences (see `FixedShape`), and another one for micro-batches
whose gradient is added to that of those before. Dropout draws anew, because torch's generator tells
a graph the present seed at each replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nmt.data.batches import Batch

Compute = Callable[[Batch, Tensor], tuple[Tensor, ...]]
"""Takes a batch with padded targets and the target tokens of its update, a scalar. It runs forward
and backward, and returns the losses without their autograd graph."""


@dataclass(frozen=True)
class _Graph:
    graph: torch.cuda.CUDAGraph
    losses: tuple[Tensor, ...]  # of the last replay
    reached: frozenset[int]  # after a replay


class MicroBatchGraphs:
    """Runs micro-batches of one shape by graphs, which it captures as they are needed."""

    def __init__(self, reached: set[int], compute: Compute, device: torch.device) -> None:
        """Prepare to capture.

        reached: see `FlatWeights`; `compute` adds to it, and so does each replay.
        """
        self._reached = reached
        self._compute = compute
        self._device = device
        self._inputs: Batch | None = None  # where graphs read
        self._update_tokens = torch.zeros((), device=device)
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._graphs: dict[tuple[int, int, bool], _Graph | None] = {}
        """By the bounds on lengths, and whether there is a gradient to add to. None: warmed up."""

    def run(self, batch: Batch, update_tokens: int) -> tuple[Tensor, ...]:
        """Run forward and backward, and return the losses.

        The first micro-batch of a kind runs without a graph, so that libraries prepare what they
        need and layers are compiled. The second one is captured.

        update_tokens: the target tokens of the update.
        """
        inputs = self._copied(batch)
        self._update_tokens.fill_(update_tokens)
        kind = batch.src.longest, batch.tgt_in.longest, bool(self._reached)
        if kind not in self._graphs:
            losses = self._warm_up(inputs)
            self._graphs[kind] = None
            return losses
        graph = self._graphs[kind]
        if graph is None:
            graph = self._graphs[kind] = self._capture(inputs)
        graph.graph.replay()
        self._reached.update(graph.reached)
        return graph.losses

    def _copied(self, batch: Batch) -> Batch:
        """Copy a batch to where graphs read, and return that, with the bounds of this batch."""
        batch = batch.with_padded_targets()
        if self._inputs is None:
            self._inputs = batch.to(self._device)
        else:
            for place, tensor in zip(self._inputs.tensors, batch.tensors, strict=True):
                place.copy_(tensor.pin_memory(), non_blocking=True)
        src, tgt_in = (
            replace(own, longest=new.longest, groups=new.groups)
            for own, new in ((self._inputs.src, batch.src), (self._inputs.tgt_in, batch.tgt_in))
        )
        return replace(self._inputs, src=src, tgt_in=tgt_in)

    def _warm_up(self, inputs: Batch) -> tuple[Tensor, ...]:
        """Run without a graph, on the stream that will be captured, as autograd notes streams."""
        present = torch.cuda.current_stream()
        self._stream.wait_stream(present)
        with torch.cuda.stream(self._stream):
            losses = self._compute(inputs, self._update_tokens)
        present.wait_stream(self._stream)
        return losses

    def _capture(self, inputs: Batch) -> _Graph:
        """Note what a pass launches, which does not run yet."""
        graph = torch.cuda.CUDAGraph()
        # One runs at a time, so they share memory, and it lasts as long as they do.
        pools = [before.graph.pool() for before in self._graphs.values() if before is not None]
        with torch.cuda.graph(
            graph,
            pool=pools[0] if pools else None,
            stream=self._stream,
            capture_error_mode="thread_local",  # others may save, or wait for other processes
        ):
            losses = self._compute(inputs, self._update_tokens)
        return _Graph(graph, losses, frozenset(self._reached))
