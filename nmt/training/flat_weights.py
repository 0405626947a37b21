"""All weights of a model in one vector, and the sum of their gradient over ranks.

With one vector, the sum over ranks, clipping, Adam and the moving average are single operations.
The vector is always fp32. The model computes with views of it or, in bf16 and fp16, with views of
a rounded copy.

The gradient of each parameter moves into the vector as soon as a backward pass has computed it: the
first micro-batch of an update sets it, the others add to it.

`GradientSum` sums the gradient over ranks during the backward pass. The vector is split into
buckets. When the last backward pass of an update has filled a bucket, its sum over ranks starts,
while earlier layers still compute (Li et al. 2020, PyTorch Distributed, section 3.2.3). All ranks
start the buckets in the same order, even if a rank has no work or fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from nmt.models.base import TranslationModel
from nmt.models.device import memory_errors
from nmt.system.distributed import Pending, Ranks

_BUCKET_VALUES = 1 << 22
"""16 MB: large enough to keep a network busy, small enough to start early."""


class FlatWeights:
    """A model's n parameters and their gradients as vectors; tied parameters count once.

    The m parameters that need a gradient come first, so that they are a slice.
    """

    def __init__(
        self, model: TranslationModel, dtype: torch.dtype, *, device: torch.device | None = None
    ) -> None:
        """Move a model's parameters into one fp32 vector, and let it compute in `dtype`.

        device: where the vectors are; None: where the model is. A GPU holds them once if the model
            is on the CPU.
        """
        # named_parameters yields tied parameters once. The sort is stable: those that are trained
        # come first, else in the model's order.
        named = sorted(model.named_parameters(), key=lambda item: not item[1].requires_grad)
        whole = torch.cat([p.detach().flatten() for _, p in named])  # (n,) fp32
        self.count = len(whole)
        self.trained_count = sum(p.numel() for _, p in named if p.requires_grad)
        self.gradient = whole.new_zeros(self.trained_count, device=device)
        """(m,) fp32, summed over the backward passes since `begin_gradient`."""
        self._compute = whole.to(device=device, dtype=dtype)  # (n,)
        self.master = whole.to(device=device) if self._is_rounded else self._compute
        """(n,) fp32. Unless rounded, the model computes with this memory."""
        self.trainable = self.master[: self.trained_count]  # (m,) a view
        self._reached: set[int] = set()
        """The `id` of each parameter whose gradient is in the vector."""
        self.trained: list[tuple[nn.Parameter, slice]] = []
        """The parameters that need a gradient, and the slice of each in the vectors."""
        self._shapes: dict[str, tuple[int, torch.Size]] = {}
        self._parameters = [parameter for _, parameter in named]
        offset = 0
        for name, parameter in named:
            end = offset + parameter.numel()
            self._shapes[name] = (offset, parameter.shape)
            if parameter.requires_grad:
                self.trained.append((parameter, slice(offset, end)))
                own = self.gradient[offset:end].view(parameter.shape)
                parameter.register_post_accumulate_grad_hook(_collector(own, self._reached))  # type: ignore[no-untyped-call]
            offset = end
        self._compute_with(self._compute)

    def held_bytes(self) -> dict[str, int]:
        """Return the memory of the vectors, by name."""
        held = {"weights": self.master.nbytes, "gradient": self.gradient.nbytes}
        return held | ({"rounded weights": self._compute.nbytes} if self._is_rounded else {})

    @property
    def _is_rounded(self) -> bool:
        """Whether the model computes with a rounded copy."""
        return self._compute.dtype != torch.float32

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Return views of a vector (n,), by the parameters' names."""
        return {
            name: vector[offset : offset + shape.numel()].view(shape)
            for name, (offset, shape) in self._shapes.items()
        }

    def begin_gradient(self) -> None:
        """Let the following backward passes sum up a new gradient."""
        self._reached.clear()

    def clear_unreached(self, trained: Iterable[tuple[nn.Parameter, slice]]) -> None:
        """Clear the gradient of those of `trained` that no backward pass has reached."""
        for parameter, place in trained:
            if id(parameter) not in self._reached:
                self.gradient[place].zero_()

    def refresh(self) -> None:
        """Let the model compute with the vector."""
        if self._is_rounded:
            self._compute.copy_(self.master)

    @contextlib.contextmanager
    def replaced_by(self, vector: Tensor) -> Iterator[None]:
        """Let the model compute with other weights during a block: on a CPU in fp32.

        There bf16 is not faster for the few rows of a step, and oneDNN would keep a product for
        each number of them.

        vector: as long as `master`.
        """
        weights = vector.to(self._compute.dtype) if vector.is_cuda else vector
        try:
            self._compute_with(weights)
            yield
        finally:
            self._compute_with(self._compute)

    def _compute_with(self, vector: Tensor) -> None:
        for parameter, (offset, shape) in zip(self._parameters, self._shapes.values(), strict=True):
            parameter.data = vector[offset : offset + shape.numel()].view(shape)


def _collector(own: Tensor, reached: set[int]) -> Callable[[Tensor], None]:
    """Return what moves a parameter's gradient to its place in the vector.

    It does not hold the parameter: torch never frees one that is held by its own hook.

    own: this place, a view of the parameter's shape.
    reached: see `FlatWeights`.
    """

    def collect(parameter: Tensor) -> None:
        assert parameter.grad is not None
        if id(parameter) in reached:
            own.add_(parameter.grad)
        else:
            own.copy_(parameter.grad)  # saves clearing the vector before each update
            reached.add(id(parameter))
        parameter.grad = None

    return collect


class GradientSum:
    """Collects the gradient of each update and sums it over ranks."""

    def __init__(self, weights: FlatWeights, ranks: Ranks) -> None:
        self._weights = weights
        self._ranks = ranks
        self._buckets = _buckets(weights)  # in the order in which the backward pass fills them
        self._missing = [len(trained) for trained, _ in self._buckets]
        self._watching = False
        self._next = 0  # the bucket to start next
        self._started: list[Pending] = []
        self.is_broken = False
        """Whether a sum could not start for want of memory. The other ranks wait for it."""
        if ranks.in_group:
            for number, (trained, _) in enumerate(self._buckets):
                for parameter, _ in trained:
                    # Hooks run in their order, so the gradient is in the vector by then.
                    parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                        lambda _, number=number: self._note(number)
                    )

    def begin(self, *, last: bool) -> None:
        """Prepare for a backward pass; `last`: in the update, on this rank."""
        self._watching = last and self._ranks.in_group

    def finish(self, flags: Tensor) -> None:
        """Start the remaining buckets and wait for all of them. Sum `flags` over ranks, too.

        Every rank calls this once per update, even if it had no backward pass or a failed one.

        MemoryError if there is none to sum; then this rank must end.
        """
        self._watching = False
        if not self._ranks.in_group:
            self._weights.clear_unreached(self._weights.trained)
        else:
            while self._next < len(self._buckets):
                self._start_next()
            self._start(flags)
            for pending in self._started:
                pending.wait()
        self._started.clear()
        self._next = 0
        self._missing = [len(trained) for trained, _ in self._buckets]

    def _note(self, bucket: int) -> None:
        """Count a parameter of the bucket whose gradient is ready."""
        if not self._watching:
            return
        self._missing[bucket] -= 1
        # In the order of buckets, the same on all ranks, also if a later one is full first.
        while self._next < len(self._buckets) and not self._missing[self._next]:
            self._start_next()

    def _start_next(self) -> None:
        trained, part = self._buckets[self._next]
        self._next += 1
        self._weights.clear_unreached(trained)
        self._start(self._weights.gradient[part])

    def _start(self, tensor: Tensor) -> None:
        try:
            with memory_errors():
                self._started.append(self._ranks.start_sum(tensor))
        except MemoryError as error:
            self.is_broken = True
            raise MemoryError(
                "out of memory to sum the gradient over processes; lower micro_batch_tokens"
            ) from error


def _buckets(weights: FlatWeights) -> list[tuple[list[tuple[nn.Parameter, slice]], slice]]:
    """Split the vector, from its end, into runs of whole parameters."""
    buckets: list[tuple[list[tuple[nn.Parameter, slice]], slice]] = []
    for parameter, place in reversed(weights.trained):
        if buckets and buckets[-1][1].stop - place.start <= _BUCKET_VALUES:
            trained, part = buckets[-1]
            buckets[-1] = ([*trained, (parameter, place)], slice(place.start, part.stop))
        else:
            buckets.append(([(parameter, place)], place))
    return buckets
