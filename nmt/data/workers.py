"""One function over many items in several processes, with the results in the order of the items."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any, TypeVar

from nmt.errors import NMTError

Item = TypeVar("Item")
Result = TypeVar("Result")

# So many items a worker are under way: one in its hands, one waiting, one on its way back.
_AHEAD = 3


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in the order of the items; few are in memory at once.

    With one worker everything happens in this process. Processes are started afresh ("spawn"), and
    `function` goes to each of them once: it has to be picklable, as items and results are.
    """
    if workers == 1:
        for item in items:
            yield item, function(item)
        return
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(function,),
    )
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    try:
        for item in items:
            with _no_interrupts():  # workers are started here, and inherit what is blocked
                waiting.append((item, pool.submit(_work, item)))
            if len(waiting) >= _AHEAD * workers:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
    except BrokenProcessPool:
        raise NMTError(
            "a worker process has died, most likely for lack of memory; try fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _next(waiting: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
    item, future = waiting.popleft()
    return item, future.result()


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Keep Ctrl-C, which a terminal sends to all processes, from those that start in between."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_functions: list[Callable[[Any], Any]] = []  # in a worker, the one that it is for


def _start_worker(function: Callable[[Any], Any]) -> None:
    _functions.append(function)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    # A worker waits for work on a pipe that it holds both ends of, so it would wait for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(item: Any) -> Any:
    return _functions[0](item)
