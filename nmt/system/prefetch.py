"""Items on their way: what is done with them at the same time, in order, few in memory at once."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 3
"""Items under way for each worker: one in its hands, the others waiting."""


class Pause:
    """Stands among items if the next one may take long: finish what is under way first."""


PAUSE = Pause()


def in_order(
    items: Iterable[Item | Pause],
    submit: Callable[[Item], Future[Result]],
    take_first: Callable[[deque[tuple[Item, Future[Result]]]], tuple[Item, Result]],
    *,
    ahead: int,
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in the order of the items.

    items: read only when there is room.
    submit: begins the work on an item.
    take_first: waits for the first item's result, and takes it off the queue.
    ahead: how many may be under way.
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    for item in items:
        is_due = isinstance(item, Pause)
        if not isinstance(item, Pause):
            waiting.append((item, submit(item)))
        while waiting and (is_due or len(waiting) >= ahead or waiting[0][1].done()):
            yield take_first(waiting)
    while waiting:
        yield take_first(waiting)


def prefetched(items: Iterator[Item], *, ahead: int) -> Iterator[Item]:
    """Yield the items while a thread prepares the next few; raise the thread's errors here."""
    ready: queue.Queue[Item | BaseException | None] = queue.Queue(ahead)
    closed = threading.Event()

    def put(item: Item | BaseException | None) -> None:
        while not closed.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def run() -> None:
        try:
            for item in items:
                put(item)
                if closed.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)
        finally:
            if isinstance(items, Generator):
                items.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        thread.join()
