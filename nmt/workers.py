"""Parallel map: one function over many items in several processes, results in order."""

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
from typing import Any, Generic, Self, TypeVar

from nmt.errors import WorkerDied

Item = TypeVar("Item")
Result = TypeVar("Result")

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM}

# So many items a worker are under way: one in its hands, one waiting, one on its way back.
_AHEAD = 3

# So many times in a row processes may die over the same item.
_MOST_DEATHS = 5

_DEATH = "a worker process has died, most likely for lack of memory; try fewer --workers"


class Pause:
    """Among items: the next one may be long in coming, so what is under way is finished first."""


PAUSE = Pause()


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
    with Workers(function, workers) as pool:
        yield from pool.map(items)


class Workers(Generic[Item, Result]):
    """Processes that all work one function, which goes to each of them once."""

    def __init__(
        self,
        function: Callable[[Item], Result],
        count: int,
        *,
        method: str = "spawn",
        on_death: Callable[[], object] | None = None,
    ) -> None:
        """Start them.

        Args:
            function: picklable, where processes are spawned.
            count: of processes.
            method: "spawn" starts them afresh; "fork" makes copies of this process as it is now,
                which share what memory neither side writes to.
            on_death: called when a process has died, before others do again what was under way; it
                may change `function`, so that less memory is needed. Without it a death ends the
                work, since the next process would need as much.
        """
        self._function = function
        self._count = count
        self._ahead = _AHEAD * count
        self._context = multiprocessing.get_context(method)
        self._on_death = on_death
        self._deaths = 0  # over the item that is waited for
        self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(
            self._count,
            mp_context=self._context,
            initializer=_start_worker,
            initargs=(self._function,),
        )
        with contextlib.ExitStack() as failing:
            failing.callback(_kill_children)  # those that have started would wait for ever
            try:
                with _no_interrupts():
                    self._pool.submit(os.getpid)
            except BrokenProcessPool:
                raise WorkerDied(_DEATH) from None
            failing.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if failure is not None:  # nobody wants what is still under way
            _kill_children()
        self._pool.shutdown(cancel_futures=True)

    def map(self, items: Iterable[Item | Pause]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result, in the order of the items; few are in memory at once."""
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        for item in items:
            if not isinstance(item, Pause):
                waiting.append((item, self._submit(item)))
            is_due = isinstance(item, Pause)
            while waiting and (is_due or len(waiting) >= self._ahead or waiting[0][1].done()):
                yield self._next(waiting)
        while waiting:
            yield self._next(waiting)

    def _submit(self, item: Item) -> Future[Result]:
        try:
            with _no_interrupts():
                return self._pool.submit(_work, item)
        except BrokenProcessPool as error:  # which is dealt with when it is the item's turn
            lost: Future[Result] = Future()
            lost.set_exception(error)
            return lost

    def _next(self, waiting: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
        """Wait for the first item's result, as often as processes die over it."""
        while True:
            item, future = waiting[0]
            try:
                result = future.result()
            except BrokenProcessPool:
                self._start_again(waiting)
            else:
                waiting.popleft()
                self._deaths = 0
                return item, result

    def _start_again(self, waiting: deque[tuple[Item, Future[Result]]]) -> None:
        """Start other processes, to do again what those that are gone had not finished."""
        self._deaths += 1
        if self._on_death is None or self._deaths == _MOST_DEATHS:
            raise WorkerDied(_DEATH) from None
        self._pool.shutdown()  # a death has ended all its processes, and all futures are done
        self._on_death()
        self._start()
        for place, (item, future) in enumerate(waiting):
            if isinstance(future.exception(), BrokenProcessPool):
                waiting[place] = item, self._submit(item)


def _kill_children() -> None:
    for process in multiprocessing.active_children():
        process.kill()


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Hold back signals while processes start, which inherit that until they are set up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_functions: list[Callable[[Any], Any]] = []  # in a worker, the one that it is for


def _start_worker(function: Callable[[Any], Any]) -> None:
    # What a terminal or a scheduler sends to all processes is for the first one to answer.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
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
