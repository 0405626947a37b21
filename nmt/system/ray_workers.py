"""Parallel map over a Ray cluster, with results in order: the only module that uses Ray.

Ray starts the work on its nodes, sends items and results, and repeats what a node that died had
under way. Here we only bound what is under way, and keep the order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, Self

from nmt.console import counted
from nmt.errors import NMTError, UsageError, WorkerDied
from nmt.system.lookahead import AHEAD, Item, Pause, Result, in_order
from nmt.system.program import prepare_libraries

_ADDRESS = "RAY_ADDRESS"
_CONNECT_SECONDS = 10.0
_MOST_DEATHS = 5
"""How often nodes or workers may die over the same item."""
_MISSING = re.compile(r"No module named '([\w.]+)'")

_functions: dict[str, Callable[[Any], Any]] = {}
"""In a worker, its newest function by the id of its reference."""


class RayWorkers(Generic[Item, Result]):
    """Processes on the nodes of a Ray cluster that all call one function. A context manager."""

    def __init__(
        self, function: Callable[[Item], Result], *, threads: int = 1, gpus: int = 0
    ) -> None:
        """Send the function to the cluster. Each process loads it once.

        Args:
            function: picklable, as items and results must be.
            threads: cores that a process takes.
            gpus: that a process takes.

        Raises:
            UsageError, NMTError: see `connect`; also if no node has so many cores and GPUs.
        """
        ray = connect()
        takes = {"CPU": threads, "GPU": gpus}
        self.count = sum(
            min(int(node.get(what, 0)) // number for what, number in takes.items() if number)
            for node in _nodes()
        )
        if not self.count:
            needed = counted(threads, "core", "cores") + (" and a GPU" if gpus else "")
            raise UsageError(f"--workers ray: no node of the cluster has {needed}")
        # Without max_calls, Ray would start a new process for each item that takes a GPU.
        options = {"max_retries": _MOST_DEATHS, "max_calls": 0}
        self._work = ray.remote(num_cpus=threads, num_gpus=gpus, **options)(_work)
        # In a list, so that Ray does not load the function anew for each item.
        self._reference = [ray.put(function)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reference.clear()  # frees the cluster's memory

    def map(self, items: Iterable[Item | Pause]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result, in the order of the items. Few are in memory at once.

        Raises:
            WorkerDied: if workers die again and again over an item, or cannot begin.
        """
        return in_order(items, self._submit, _take_first, ahead=AHEAD * self.count)

    def _submit(self, item: Item) -> Future[Result]:
        # A future, because a signal's exception would be lost in Ray's own waiting.
        future: Future[Result] = self._work.remote(self._reference, item).future()
        return future


def _take_first(waiting: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
    import ray

    item, under_way = waiting.popleft()
    try:
        return item, under_way.result()
    except ray.exceptions.RayTaskError as error:  # the unit itself failed
        if missing := _MISSING.search(str(error)):
            raise WorkerDied(
                f"a node of the Ray cluster has no Python module {missing[1]}; install nmt there "
                "with the same extras"
            ) from None
        raise error.cause from None
    except ray.exceptions.RayError as error:
        why = str(error).partition("\n")[0]
        raise WorkerDied(
            "workers of the Ray cluster have died again and again over the same work, most likely "
            f"for lack of memory: {why}"
        ) from None


def _work(reference: list[Any], item: Any) -> Any:
    """Apply the function to an item; runs in a worker."""
    import ray

    name = reference[0].hex()
    if name not in _functions:
        prepare_libraries()  # before the function's modules are loaded
        _functions.clear()
        _functions[name] = ray.get(reference[0])
    return _functions[name](item)


def has_gpu() -> bool:
    """Tell whether a node of the cluster has a GPU. Errors as in `connect`."""
    return any(node.get("GPU", 0) >= 1 for node in _nodes())


def _nodes() -> list[dict[str, float]]:
    """Return the resources of each node that is alive."""
    return [node["Resources"] for node in connect().nodes() if node["Alive"]]


def connect() -> Any:
    """Return the module of Ray, connected to its cluster until this process ends.

    Raises:
        UsageError: if Ray is missing, or the environment does not name its cluster.
        NMTError: if the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("--workers ray needs ray; run `pip install ray`") from None
    address = os.environ.get(_ADDRESS)
    if not address:
        raise UsageError(
            f"--workers ray: {_ADDRESS} is not set; set it to the address of your cluster, or to "
            "auto on one of its nodes, after `ray start --head`"
        )
    if not ray.is_initialized():
        _check_reachable(address)
        with _own_signals():
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                why = str(error).partition("\n")[0]
                raise NMTError(f"--workers ray: no Ray cluster at {address}: {why}") from None
    return ray


def _check_reachable(address: str) -> None:
    """Check that something answers at HOST:PORT, for which Ray would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # such as auto, which Ray looks up
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise NMTError(f"--workers ray: no Ray cluster at {address}: {error}") from None


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep our way to end, which Ray would replace."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
