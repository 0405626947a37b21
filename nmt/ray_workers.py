"""Parallel map over a Ray cluster, with results in order: the only module that uses Ray.

Ray starts the work on its nodes, sends items and results, and repeats what a node that died had
under way. Here we only bound what is under way, and keep the order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from nmt.errors import NMTError, UsageError, WorkerDied

Item = TypeVar("Item")
Result = TypeVar("Result")

_ADDRESS = "RAY_ADDRESS"
_AHEAD = 3
"""Items under way for each core of the cluster, as with local processes."""
_CONNECT_SECONDS = 10.0
_MOST_DEATHS = 5
"""How often nodes or workers may die over the same item."""

_functions: dict[str, Callable[[Any], Any]] = {}
"""In a worker, its newest function by the id of its reference."""


def map_on_ray(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in the order of the items. Few are in memory at once.

    `function`, items and results must be picklable. `function` is sent to each worker once.

    Raises:
        UsageError, NMTError: see `connect`.
        WorkerDied: if workers die again and again over an item.
    """
    ray = connect()
    ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    work = ray.remote(max_retries=_MOST_DEATHS)(_work)
    reference = ray.put(function)
    waiting: deque[tuple[Item, Any]] = deque()

    def next_result() -> tuple[Item, Result]:
        item, under_way = waiting.popleft()
        try:
            return item, ray.get(under_way)
        except ray.exceptions.RayTaskError as error:  # the unit itself failed
            raise error.cause from None
        except ray.exceptions.RayError as error:
            why = str(error).partition("\n")[0]
            raise WorkerDied(f"a worker of the Ray cluster has died: {why}") from None

    for item in items:
        # In a list, so that Ray does not load the function anew for each item.
        waiting.append((item, work.remote([reference], item)))
        while len(waiting) >= ahead:
            yield next_result()
    while waiting:
        yield next_result()


def _work(reference: list[Any], item: Any) -> Any:
    """Apply the function to an item; runs in a worker."""
    import ray

    name = reference[0].hex()
    if name not in _functions:
        _functions.clear()
        _functions[name] = ray.get(reference[0])
    return _functions[name](item)


def connect() -> Any:
    """Return the module of Ray, connected to its cluster until this process ends.

    Raises:
        UsageError: if Ray is missing, or the environment does not name its cluster.
        NMTError: if the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("--workers ray needs ray; run `pip install nmt[ray]`") from None
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
