"""CUDA graphs of the pretended GPU: a capture records operators, and `replay` runs them again.

They run on the very tensors of the capture, so a replay sees what is in them by then. What a real
GPU would do without a word is an error here:

- memory that came from outside the capture, and that nobody else holds any more;
- an operator whose result has another shape than in the capture;
- waiting for the host or copying from or to it in a capture (device.cpp).

Numbers that Python read before or in the capture are part of the graph, as on a GPU. A capture
leaves memory from outside and the random generator as they were, and its results are junk. Graphs
of one pool may share the memory of what they compute inside. So a replay fills the results of the
graphs that were captured after it in its pool with junk. Unlike a real graph, one here holds all
that it computes inside.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pretended_gpu import build
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

_DEVICE = ctypes.CDLL(str(build.build()))
_JUNK = 0x7B  # as in device.cpp
_pools = itertools.count(1)
_graphs_of: dict[tuple[int, int], weakref.WeakSet[CUDAGraph]] = {}
_numbers = itertools.count()
_capturing: list[CUDAGraph] = []
_begun = [0]  # replays


def replays() -> int:
    """Return how many graphs were begun."""
    return _begun[0]


def is_capturing(*_: object) -> bool:
    """Say whether a graph records what is begun."""
    return bool(_capturing)


def forbid(what: str) -> None:
    """Refuse what a capture cannot have."""
    if _capturing:
        raise RuntimeError(f"operation not permitted when stream is capturing: {what}")


def graph_pool_handle() -> tuple[int, int]:
    """Return the name of a new pool of memory."""
    return 0, next(_pools)


@dataclass(frozen=True)
class _Call:
    """An operator, and what it was given and returned in the capture."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    new: list[Tensor | None]  # results with memory of their own

    def again(self) -> None:
        results = _tensors(self.function(*self.args, **self.kwargs))
        for result, before in zip(results, self.new, strict=True):
            if before is not None:
                same = result.shape == before.shape and result.stride() == before.stride()
                assert same, f"{self.function}: a result is {result.shape}, and was {before.shape}"
                before.copy_(result)


class CUDAGraph:
    """What `torch.cuda.CUDAGraph` is."""

    def __init__(self, **_: object) -> None:
        self._pool: tuple[int, int] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was captured."""
        self._calls: list[_Call] | None = None
        self._recorder: _Recorder | None = None
        self._outside: dict[int, list[Tensor]] = {}  # see `_Recorder`
        self._inside: dict[int, Tensor] = {}

    def pool(self) -> tuple[int, int]:
        """Return the pool, for another graph."""
        assert self._pool is not None, "nothing was captured"
        return self._pool

    def capture_begin(self, pool: tuple[int, int] | None = None, **_: object) -> None:
        """Record all operators from now on."""
        forbid("another capture")
        assert self._calls is None, "a graph is captured once"
        self._pool = graph_pool_handle() if pool is None else pool
        assert len(_graphs_of.get(self._pool, "new")), "a pool ends with the last of its graphs"
        self._recorder = _Recorder()
        self._random_state = torch.get_rng_state()
        self._recorder.__enter__()  # type: ignore[no-untyped-call]
        _capturing.append(self)
        _DEVICE.set_capturing(True)

    def capture_end(self) -> None:
        """Keep what was recorded."""
        assert self._recorder is not None and self._pool is not None, "nothing is being captured"
        _DEVICE.set_capturing(False)
        _capturing.remove(self)
        self._recorder.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._calls, self._inside = self._recorder.calls, self._recorder.inside
        torch.set_rng_state(self._random_state)
        for address, content in self._recorder.before.items():
            ctypes.memmove(address, content, len(content))
        self._spoil()
        self._outside, self._recorder = self._recorder.outside, None
        self._number = next(_numbers)
        _graphs_of.setdefault(self._pool, weakref.WeakSet()).add(self)

    def replay(self) -> None:
        """Run what was recorded, on what is in its memory now."""
        forbid("a graph")
        assert self._calls is not None, "nothing was captured"
        _begun[0] += 1
        graphs = [one for pool in _graphs_of.values() for one in pool]
        for address, own in self._outside.items():
            memory = own[0].untyped_storage()
            recorded = sum(len(one._outside.get(address, ())) for one in graphs)
            if torch._C._storage_Use_Count(memory._cdata) <= recorded + 1:  # with `memory`
                raise RuntimeError(
                    f"a graph uses memory that was freed after its capture: {tuple(own[0].shape)}"
                )
        for other in _graphs_of[self.pool()]:
            if other._number > self._number:
                other._spoil()
        _DEVICE.set_replaying(True)
        try:
            with torch.inference_mode():
                for call in self._calls:
                    call.again()
        finally:
            _DEVICE.set_replaying(False)

    def _spoil(self) -> None:
        for address, x in self._inside.items():
            ctypes.memset(address, _JUNK, x.untyped_storage().nbytes())


class graph:  # noqa: N801
    """What `torch.cuda.graph` is: captures what the context begins."""

    def __init__(
        self, cuda_graph: CUDAGraph, pool: tuple[int, int] | None = None, **_: object
    ) -> None:
        self._graph, self._pool = cuda_graph, pool

    def __enter__(self) -> None:
        torch.cuda.synchronize()
        self._graph.capture_begin(self._pool)

    def __exit__(self, *_: object) -> None:
        self._graph.capture_end()


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records operators. Tensors from outside are recorded as others of the same memory.

    So the number of a memory's holders tells whether there are any besides the graph. Tensors from
    inside are others, too, because operators such as `squeeze_` change their shape later.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []
        self.inside: dict[int, Tensor] = {}  # by address
        self.outside: dict[int, list[Tensor]] = {}
        self.before: dict[int, bytes] = {}  # what was in memory from outside that changes

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = {_address(x): x for x in _tensors((args, kwargs)) if x.is_cuda}
        if torch.Tag.inplace_view in func.tags:
            return func(*args, **kwargs)
        recorded = tree_map_only(Tensor, lambda x: x.detach() if x.is_cuda else x, (args, kwargs))
        if func._schema.is_mutable:
            for address in given.keys() - self.inside.keys() - self.before.keys():
                size = given[address].untyped_storage().nbytes()
                self.before[address] = ctypes.string_at(address, size)
        results = func(*args, **kwargs)
        new = [
            x.detach() if x.is_cuda and _address(x) not in given else None
            for x in _tensors(results)
        ]
        self.inside.update((_address(x), x) for x in new if x is not None)
        on_gpu = given or any(x is not None for x in new)
        if on_gpu and (func._schema.is_mutable or any(x is not None for x in new)):
            for x in _tensors(recorded):
                if x.is_cuda and _address(x) not in self.inside:
                    self.outside.setdefault(_address(x), []).append(x)
            args, kwargs = recorded
            self.calls.append(_Call(func, args, kwargs, new))
        return results


def _address(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]
