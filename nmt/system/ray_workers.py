"""Parallel map over a Ray cluster, with results in order: the only module that uses Ray.

Ray starts the work on its nodes, sends items and results, and repeats what a node that died had
under way. Here we only bound what is under way, and keep the order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, Self

from nmt import console
from nmt.errors import NMTError, UsageError, WorkerDied
from nmt.system.machine import version_of_code
from nmt.system.prefetch import AHEAD, Item, Pause, Result, in_order
from nmt.system.program import handling_signals

_ADDRESS = "RAY_ADDRESS"
_CONNECT_SECONDS = 10.0
_MOST_DEATHS = 5
"""How often nodes or workers may die over the same item."""
_PATIENCE = 5.0
"""Seconds for which a job waits for free cores in silence: those of its last step are soon free."""
_KEEPALIVE = "RAY_grpc_client_keepalive_time_ms", "RAY_grpc_client_keepalive_timeout_ms"
"""Settings by which Ray gives up a node that has vanished after half a minute, and not after seven.

Ray reads them when it is loaded.
"""


class RayWorkers(Generic[Item, Result]):
    """Processes on the nodes of a Ray cluster that all call one function. A context manager."""

    def __init__(
        self, function: Callable[[Item], Result], *, threads: int = 1, gpus: int = 0
    ) -> None:
        """Send the function to the cluster. Each process loads it once.

        function: picklable, as items and results must be.
        threads: cores that a process takes.
        gpus: that a process takes.
        UsageError or NMTError as from `connect`, also if no node has so many cores and GPUs.
        """
        ray = connect()
        takes = {what: number for what, number in (("CPU", threads), ("GPU", gpus)) if number}
        self.count = sum(
            min(int(node.get(what, 0)) // number for what, number in takes.items())
            for node in _nodes()
        )
        if not self.count:
            needed = console.counted(threads, "core", "cores") + (" and a GPU" if gpus else "")
            raise UsageError(f"--workers ray: no node of the cluster has {needed}")
        # Without max_calls, Ray would start a new process for each item that takes a GPU.
        options = {"max_retries": _MOST_DEATHS, "max_calls": 0}
        work = _worker(version_of_code())
        self._work = ray.remote(num_cpus=threads, num_gpus=gpus, **options)(work)
        # In a list, so that Ray does not load the function anew for each item.
        self._reference = [ray.put(function)]
        _wait_for_cores(takes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reference.clear()  # frees the cluster's memory

    def map(self, items: Iterable[Item | Pause]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result, in the order of the items. Few are in memory at once.

        WorkerDied if workers die again and again over an item, or cannot begin.
        """
        return in_order(items, self._submit, _take_first, ahead=AHEAD * self.count)

    def _submit(self, item: Item) -> Future[Result]:
        import ray

        # As bytes, which a node with another nmt can read, too.
        sent = ray.cloudpickle.dumps(item)
        # A future, because a signal's exception would be lost in Ray's own waiting.
        future: Future[Result] = self._work.remote(self._reference, sent).future()
        return future


def _take_first(waiting: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
    import ray

    item, under_way = waiting.popleft()
    try:
        return item, under_way.result()
    except ray.exceptions.RayTaskError as error:  # the unit itself failed
        if isinstance(error.cause, ImportError):  # see `_worker`
            raise WorkerDied(str(error.cause)) from None
        raise error.cause from None
    except ray.exceptions.RayError as error:
        why = str(error).partition("\n")[0]
        raise WorkerDied(
            "workers of the Ray cluster have died again and again over the same work, most likely "
            f"for lack of memory: {why}"
        ) from None


def _worker(version: str) -> Callable[[list[Any], bytes], Any]:
    """Return what applies a function to an item in a worker, whose nmt must be of this version.

    Ray sends this code itself, because it is inside a function, and not its name. So it runs on a
    node that has another nmt, or none. ImportError, with the node's name, if that is so.
    """
    functions: dict[str, Callable[[Any], Any]] = {}  # in a worker, its newest, by its reference

    def work(reference: list[Any], item: bytes) -> Any:
        import platform

        import ray

        try:
            name = reference[0].hex()
            if name not in functions:
                from nmt.system.program import prepare_libraries

                prepare_libraries()  # before the function's modules are loaded
                from nmt.system.machine import version_of_code

                if (found := version_of_code()) != version:
                    raise ImportError(f"has {found}, and this machine has {version}")
                functions.clear()
                functions[name] = ray.get(reference[0])
            return functions[name](ray.cloudpickle.loads(item))
        except ImportError as error:
            address = ray.util.get_node_ip_address()
            raise ImportError(
                f"node {platform.node()} ({address}) of the Ray cluster: {error}; install the same "
                "nmt there, with the same extras"
            ) from None

    return work


def _wait_for_cores(takes: dict[str, int]) -> None:
    """Wait some seconds until a worker could start; if none can, say what the job waits for."""
    import ray

    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        free = ray.available_resources()
        if all(free.get(what, 0) >= number for what, number in takes.items()):
            return
        time.sleep(0.1)
    console.notice("all of the Ray cluster is busy; the work begins when other jobs leave it cores")


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for a block in a worker, which goes also if Ray kills the worker meanwhile.

    A process removes it as soon as this one no longer holds its end of a pipe. The process is in a
    session of its own and nobody's child, because Ray kills the children of workers, too.
    """
    folder = tempfile.mkdtemp(prefix="nmt-")
    remove = ("sh", "-c", 'exec 3<&0; (cat <&3; rm -rf -- "$0") > /dev/null 2>&1 &', folder)
    with subprocess.Popen(remove, stdin=subprocess.PIPE, start_new_session=True):
        yield Path(folder)


def has_gpu() -> bool:
    """Tell whether a node of the cluster has a GPU. Errors as in `connect`."""
    return any(node.get("GPU", 0) >= 1 for node in _nodes())


def _nodes() -> list[dict[str, float]]:
    """Return the resources of each node that is alive."""
    return [node["Resources"] for node in connect().nodes() if node["Alive"]]


def connect() -> Any:
    """Return the module of Ray, connected to its cluster until this process ends.

    UsageError if Ray is missing, or the environment does not name its cluster. NMTError if the
    cluster cannot be reached.
    """
    for name in _KEEPALIVE:
        os.environ.setdefault(name, "10000")
    try:
        import ray
    except ImportError:
        raise UsageError("--workers ray needs ray; run `pip install ray`") from None
    address = os.environ.get(_ADDRESS)
    if address in (None, "", "local"):  # by which Ray would start a head of its own
        raise UsageError(
            f"--workers ray: {_ADDRESS} names no cluster; set it to the address of yours, or to "
            "auto on one of its nodes, after `ray start --head`"
        )
    if not ray.is_initialized():
        _check_reachable(address)
        with handling_signals(None):  # Ray would replace our handlers
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                why = " ".join(str(error.__cause__ or error).split())
                if "No node info found" in why:  # as Ray says it
                    why = (
                        "this machine is no node of it; make it one without workers by "
                        f"`ray start --address {address} --num-cpus 0`"
                    )
                raise NMTError(f"--workers ray: the cluster at {address}: {why}") from None
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
