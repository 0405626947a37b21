"""Count what a GPU would do: kernels, floating-point operations, bytes and copies.

torch runs the model, its backward pass and the optimiser on fake tensors of device `cuda`. They
have shapes and types, but no values, so an update of a big model at full size takes seconds. Each
operation that reaches the GPU is counted by phase, by name and by the line of `nmt` that asked for
it. The backward pass of torch's own operations has no such line. The process needs the pretended
GPU (README.md), which gives autograd a device.

What an operation costs on the device is an estimate: the longest of its arithmetic, its memory
traffic and 2 microseconds for each kernel, on an H100. Reading a value of a fake tensor fails,
except by `numpy`.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import nmt

GPU = torch.device("cuda", 0)

LAUNCH_SECONDS = 4e-6
"""What a launch costs the process that asks for it."""
# What an H100 (SXM) reaches, not what its data sheet says.
_HALF_FLOPS, _FLOPS = 700e12, 50e12  # a second, in half precision and in fp32
_BYTES = 2.8e12  # a second
_SHORTEST = 2e-6  # seconds, of a kernel

_WITHOUT_KERNEL = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("_unsafe_view", "lift_fresh", "resize_", "set_", "record_stream", "is_same_size"),
}
_KERNELS = {
    "_flash_attention_backward": 3,
    "_fused_adam_": 2,
    "cumsum": 2,
    "embedding_dense_backward": 12,
    "index_put_": 5,
    "linalg_vector_norm": 2,
    "native_layer_norm_backward": 3,
    "sort": 4,
    "topk": 3,
}
"""Operations that launch several kernels, and about how many; all others launch one."""
_WRITES_ONLY = {"fill_", "zero_", "zeros", "ones", "full", "zeros_like", "new_zeros", "new_full"}
_READS_WHAT_IT_WRITES = {"embedding", "index_select", "gather"}
_WAITS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive"),
    *("unique_dim", "equal", "is_nonzero", "repeat_interleave", "bincount"),
}
"""Operations whose result has a size or a value that the host has to know."""


@dataclass
class Work:
    """The work of some operations."""

    operations: int = 0
    kernels: int = 0
    flops: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """On the device, at least."""

    def add(self, other: Work) -> None:
        """Add the work of others."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def launch_seconds(self) -> float:
        """What the launches take on the host."""
        return self.kernels * LAUNCH_SECONDS


class Counts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What the device has done since the last `clear`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.work: defaultdict[tuple[str, str, str], Work] = defaultdict(Work)
        """By phase, operation and line."""
        self.copies: Counter[str] = Counter()
        """Copies between host and device in the background: `to the GPU, FILE:LINE`."""
        self.waits: Counter[str] = Counter()
        """What the host waits for: copies without pinned memory, values and events."""
        self.pairs: Callable[[int, int], int] = lambda queries, keys: queries * keys
        """Pairs of a query and a key that see each other, of so many packed ones."""
        self._phase = "rest"
        self._pinned: dict[int, Tensor] = {}  # by their memory, which they keep

    def clear(self) -> None:
        """Forget what was counted."""
        for counted in (self.work, self.copies, self.waits):
            counted.clear()

    def total(self, phase: str | None = None) -> Work:
        """Return the work of a phase, or of all."""
        total = Work()
        for (own, _, _), work in self.work.items():
            if phase in (None, own):
                total.add(work)
        return total

    def phase(self, name: str, owner: object, function: str) -> AbstractContextManager[object]:
        """Count what a function of a module or object does in a block as a phase of this name."""
        found = getattr(owner, function)

        def run(*args: Any, **kwargs: Any) -> Any:
            before, self._phase = self._phase, name
            try:
                return found(*args, **kwargs)
            finally:
                self._phase = before

        return patch.object(owner, function, run)

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name(func)
        if name == "is_pinned":
            return self._is_pinned(args[0])
        if name == "_pin_memory":
            return self._pin(args[0].clone())
        inputs = _tensors((args, kwargs))
        if name in _WAITS and any(x.is_cuda for x in inputs):
            self.waits[f"{name}, {_line()}"] += 1
        result = func(*args, **(kwargs or {}))
        outputs = _tensors(result)
        if kwargs and kwargs.get("pin_memory"):
            self._pin(result)
        if name in ("_to_copy", "copy_") and len({x.device.type for x in inputs + outputs}) > 1:
            self._copied(name, args, result, kwargs or {})
        elif any(x.is_cuda for x in inputs + outputs) and not _is_free(func, inputs, outputs):
            self.work[self._phase, name, _line()].add(self._work(name, args, inputs, outputs))
        return result

    def _copied(self, name: str, args: Any, result: Tensor, kwargs: dict[str, Any]) -> None:
        source, target = (args[1], args[0]) if name == "copy_" else (args[0], result)
        host = source if target.is_cuda else target
        goes_on = kwargs.get("non_blocking") or (name == "copy_" and args[2:] == (True,))
        where = f"to the {'GPU' if target.is_cuda else 'host'}, {_line()}"
        if goes_on and self._is_pinned(host):
            self.copies[where] += 1
        else:
            self.waits[f"copy {where}"] += 1

    def _is_pinned(self, tensor: Tensor) -> bool:
        return _memory(tensor) in self._pinned

    def _pin(self, tensor: Tensor) -> Tensor:
        self._pinned[_memory(tensor)] = tensor
        return tensor

    def _work(self, name: str, args: Any, inputs: list[Tensor], outputs: list[Tensor]) -> Work:
        kernels = _KERNELS.get(name, 1)
        flops = self._flops(name, args)
        if name in _WRITES_ONLY:
            moved = _bytes(outputs)
        elif name in _READS_WHAT_IT_WRITES:
            moved = 2 * _bytes(outputs)
        else:
            moved = _bytes(inputs) + _bytes(outputs)
        of_type = _FLOPS if inputs and inputs[0].dtype == torch.float32 else _HALF_FLOPS
        seconds = max(flops / of_type, moved / _BYTES, kernels * _SHORTEST)
        return Work(1, kernels, flops, moved, seconds)

    def _flops(self, name: str, args: Any) -> int:
        """Count those of products; in all else, memory is what takes time."""
        if name in ("mm", "bmm", "addmm", "_addmm_activation", "baddbmm"):
            left, right = args[:2] if name in ("mm", "bmm") else args[1:3]
            return 2 * int(left.numel() * right.shape[-1])
        if name == "_flash_attention_forward":
            query, key = args[:2]
            return 4 * self.pairs(len(query), len(key)) * int(query[0].numel())
        if name == "_flash_attention_backward":
            query, key = args[1:3]
            return 10 * self.pairs(len(query), len(key)) * int(query[0].numel())
        return 0


@contextmanager
def counting(read: Callable[[Tensor], NDArray[Any]] | None = None) -> Iterator[Counts]:
    """Compute with fake tensors in a block, and count what a GPU would do for them.

    Tensors from outside of the block stay real, and may be used on the host.

    read: returns what `numpy` finds in a fake tensor on the host; by default zeros.
    """
    counts = Counts()
    numpy = torch.Tensor.numpy

    def values(tensor: Tensor) -> NDArray[Any]:
        if not isinstance(tensor, FakeTensor):
            return numpy(tensor)
        assert tensor.device.type == "cpu"
        return (read or _zeros)(tensor)

    class Event:
        def __init__(self, *_: object, **__: object) -> None: ...

        def record(self, *_: object) -> None: ...

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            counts.waits[f"synchronize, {_line()}"] += 1

    waiting: dict[str, Any] = {
        "Event": Event,
        "current_stream": lambda _=None: Event(),
        "synchronize": lambda _=None: Event().synchronize(),
    }
    with (
        patch.multiple(torch.cuda, **waiting),
        patch.object(torch.Tensor, "numpy", values),
        patch.object(FakeTensorMode, "avoid_device_init", property(lambda _: True)),
        FakeTensorMode(allow_non_fake_inputs=True),
        counts,
    ):
        yield counts


def _zeros(tensor: Tensor) -> NDArray[Any]:
    return np.zeros(tensor.shape, np.dtype(str(tensor.dtype).removeprefix("torch.")))


def _tensors(values: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes(tensors: list[Tensor]) -> int:
    return sum(x.numel() * x.element_size() for x in tensors if x.is_cuda)


def _is_free(func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> bool:
    """Tell whether an operation only allocates, or looks at its inputs in another way."""
    if _name(func) in _WITHOUT_KERNEL:
        return True
    own = {_memory(x) for x in inputs}
    return not func._schema.is_mutable and all(_memory(x) in own for x in outputs)


def _name(func: Any) -> str:
    return str(func.name()).removeprefix("aten::").split(".")[0]


_NMT = f"{Path(nmt.__file__).parent}/"


def _line() -> str:
    """Return the innermost line of `nmt` that is running; `torch`: none is."""
    frame = sys._getframe()
    while frame.f_back is not None:
        if frame.f_code.co_filename.startswith(_NMT):
            return f"{frame.f_code.co_filename.removeprefix(_NMT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "torch"
