"""All weights of a model in one vector, and the sum of their gradient over ranks.

With one vector, the sum over ranks, clipping, Adam and the moving average are single operations.
The vector is always fp32. The model computes with views of it or, in bf16 and fp16, with views of
a rounded copy.

`GradientSum` sums the gradient over ranks during the backward pass. The vector is split into
buckets. When the last backward pass of an update has filled a bucket, its sum over ranks starts,
while earlier layers still compute (Li et al. 2020, PyTorch Distributed, section 3.2.3). All ranks
start the buckets in the same order, even if a rank has no work or fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nmt.distributed import Pending, Ranks
from nmt.models.base import TranslationModel

_ALL = slice(None)
_BUCKET_VALUES = 1 << 22
"""16 MB: large enough to keep a network busy, small enough to start early."""


class FlatWeights:
    """A model's n parameters and their gradients as vectors; tied parameters count once.

    The m parameters that need a gradient come first, so that they are a slice.
    """

    def __init__(self, model: TranslationModel, dtype: torch.dtype) -> None:
        """Move a model's parameters into one fp32 vector, and let it compute in `dtype`."""
        # named_parameters yields tied parameters once.
        named = sorted(model.named_parameters(), key=lambda item: not item[1].requires_grad)
        self.master = torch.cat([p.detach().flatten() for _, p in named])  # (n,) fp32
        trainable = sum(p.numel() for _, p in named if p.requires_grad)
        self.trainable = self.master[:trainable]  # (m,) a view
        self.gradient = torch.zeros_like(self.trainable)  # (m,) fp32, summed over micro-batches
        if dtype == torch.float32:
            self._compute, self._partial = self.master, self.gradient
        else:
            self._compute = self.master.to(dtype)  # (n,)
            self._partial = torch.zeros_like(self._compute[:trainable])  # (m,) of one micro-batch
        self.trained: list[tuple[nn.Parameter, slice]] = []
        """The parameters that need a gradient, and the slice of each in the vectors."""
        self._shapes: dict[str, tuple[int, torch.Size]] = {}
        offset = 0
        for name, parameter in named:
            end = offset + parameter.numel()
            self._shapes[name] = (offset, parameter.shape)
            parameter.data = self._compute[offset:end].view(parameter.shape)
            if parameter.requires_grad:
                parameter.grad = self._partial[offset:end].view(parameter.shape)
                self.trained.append((parameter, slice(offset, end)))
            offset = end

    def held_bytes(self) -> dict[str, int]:
        """Return the memory of the vectors, by name."""
        held = {"weights": self.master.nbytes, "gradient": self.gradient.nbytes}
        if self._compute is not self.master:
            held["rounded weights and gradient"] = self._compute.nbytes + self._partial.nbytes
        return held

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Return views of a vector (n,), by the parameters' names."""
        return {
            name: vector[offset : offset + shape.numel()].view(shape)
            for name, (offset, shape) in self._shapes.items()
        }

    def collect_gradient(self, part: slice = _ALL) -> None:
        """Add a part of the micro-batch's gradient to the update's gradient."""
        if self._partial is not self.gradient:
            self.gradient[part] += self._partial[part]
            self._partial[part].zero_()

    def clear_gradient(self) -> None:
        """Clear the gradient of the update."""
        self.gradient.zero_()
        if self._partial is not self.gradient:
            self._partial.zero_()

    def refresh(self) -> None:
        """Copy the vector to the model's rounded weights."""
        if self._compute is not self.master:
            self._compute.copy_(self.master)

    @contextlib.contextmanager
    def replaced_by(self, vector: Tensor) -> Iterator[None]:
        """Let the model compute with other weights during a block."""
        if vector is self.master:  # the model already computes with these
            yield
            return
        kept = self._compute.clone()
        self._compute.copy_(vector)
        try:
            yield
        finally:
            self._compute.copy_(kept)


class GradientSum:
    """Collects the gradient of each update and sums it over ranks."""

    def __init__(self, weights: FlatWeights, ranks: Ranks) -> None:
        self._weights = weights
        self._ranks = ranks
        self._buckets = _buckets(weights)  # in the order in which the backward pass fills them
        self._missing = [len(parameters) for parameters, _ in self._buckets]
        self._watching = False
        self._started: list[Pending] = []
        if ranks.in_group:
            for number, (parameters, _) in enumerate(self._buckets):
                for parameter in parameters:
                    parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                        lambda _, number=number: self._note(number)
                    )

    def begin(self, *, first: bool, last: bool) -> None:
        """Prepare for a backward pass; `first`, `last`: in the update, on this rank."""
        if not first:
            self._weights.collect_gradient()  # of the micro-batch before
        self._watching = last and self._ranks.in_group

    def finish(self) -> None:
        """Start the remaining buckets and wait for all of them.

        Every rank calls this once per update, even if it had no backward pass or a failed one.
        """
        self._watching = False
        if not self._ranks.in_group:
            self._weights.collect_gradient()
        else:
            while len(self._started) < len(self._buckets):
                self._start_next()
            for pending in self._started:
                pending.wait()
        self._started.clear()
        self._missing = [len(parameters) for parameters, _ in self._buckets]

    def _note(self, bucket: int) -> None:
        """Count a parameter of the bucket whose gradient is ready."""
        if not self._watching:
            return
        self._missing[bucket] -= 1
        while len(self._started) < len(self._buckets) and not self._missing[len(self._started)]:
            self._start_next()

    def _start_next(self) -> None:
        _, part = self._buckets[len(self._started)]
        self._weights.collect_gradient(part)
        self._started.append(self._ranks.start_sum(self._weights.gradient[part]))


def _buckets(weights: FlatWeights) -> list[tuple[list[Tensor], slice]]:
    """Split the vector, from its end, into runs of whole parameters."""
    buckets: list[tuple[list[Tensor], slice]] = []
    for parameter, place in reversed(weights.trained):
        if buckets and buckets[-1][1].stop - place.start <= _BUCKET_VALUES:
            parameters, part = buckets[-1]
            buckets[-1] = ([*parameters, parameter], slice(place.start, part.stop))
        else:
            buckets.append(([parameter], place))
    return buckets
