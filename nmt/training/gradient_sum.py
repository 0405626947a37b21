"""The sum of an update's gradient over ranks, while the backward pass still goes on.

The vector of gradients is cut into buckets. As soon as the update's last backward pass has filled a
bucket, its sum over ranks begins, and travels while the layers before it are still at work (Li et
al. 2020, PyTorch Distributed, section 3.2.3). Buckets start in the same order on every rank,
whatever the rank has to do or fails to do.
"""

from __future__ import annotations

from torch import Tensor

from nmt.training.distributed import Pending, Ranks
from nmt.training.flat_weights import FlatWeights

_BUCKET_VALUES = 1 << 22
"""16 MB: large enough for a network to be busy, small enough to start early."""


class GradientSum:
    """Collects and sums the gradient of one update after the other."""

    def __init__(self, weights: FlatWeights, ranks: Ranks) -> None:
        self._weights = weights
        self._ranks = ranks
        self._buckets = _buckets(weights)  # in the order in which backward passes fill them
        self._missing = [len(parameters) for parameters, _ in self._buckets]
        self._watching = False
        self._started: list[Pending] = []
        if ranks.world_size > 1:
            for number, (parameters, _) in enumerate(self._buckets):
                for parameter in parameters:
                    parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                        lambda _, number=number: self._note(number)
                    )

    def begin(self, *, first: bool, last: bool) -> None:
        """Make ready for a backward pass; `first`, `last`: of the update's on this rank."""
        if not first:
            self._weights.collect_gradient()  # of the one before
        self._watching = last and self._ranks.world_size > 1

    def finish(self) -> None:
        """Start what has not begun, and wait until all is summed.

        Every rank does so once an update, also one that had no backward pass, or whose backward
        pass has failed.
        """
        self._watching = False
        if self._ranks.world_size == 1:
            self._weights.collect_gradient()
        else:
            while len(self._started) < len(self._buckets):
                self._start_next()
            for pending in self._started:
                pending.wait()
        self._started.clear()
        self._missing = [len(parameters) for parameters, _ in self._buckets]

    def _note(self, bucket: int) -> None:
        """A parameter of the bucket has its gradient."""
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
    """Cut the vector from its end into runs of whole parameters."""
    buckets: list[tuple[list[Tensor], slice]] = []
    for parameter, place in reversed(weights.trained):
        if buckets and buckets[-1][1].stop - place.start <= _BUCKET_VALUES:
            parameters, part = buckets[-1]
            buckets[-1] = ([*parameters, parameter], slice(place.start, part.stop))
        else:
            buckets.append(([parameter], place))
    return buckets
