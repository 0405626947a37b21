"""Work beside this thread: a function mapped over items in several processes, results in order;
or items prepared ahead in a thread.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any, Generic, Self, TypeVar

from nmt.errors import WorkerDied

Item = TypeVar("Item")
Result = TypeVar("Result")

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM}

# Items under way for each worker: one in its hands, one waiting, one on its way back.
_AHEAD = 3

# How long a dead process may stay unnoticed by the pool.
_LOOK_SECONDS = 2.0

# How often in a row processes may die over the same item.
_MOST_DEATHS = 5

_DEATH = "a worker process has died, most likely for lack of memory; try fewer --workers"


class Pause:
    """Stands among items if the next one may take long: finish what is under way first."""


PAUSE = Pause()


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int | None
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in the order of the items. Few are in memory at once.

    Without a number of workers, a Ray cluster does the work. With one worker, everything happens in
    this process. Otherwise processes are spawned. Then `function`, items and results must be
    picklable, and `function` is sent to each process once.
    """
    if workers is None:
        from nmt.ray_workers import RayWorkers  # which needs this module

        with RayWorkers(function) as cluster:
            yield from cluster.map(items)
    elif workers == 1:
        for item in items:
            yield item, function(item)
    else:
        with Workers(function, workers) as pool:
            yield from pool.map(items)


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


class Workers(Generic[Item, Result]):
    """Processes that all call one function."""

    def __init__(
        self,
        function: Callable[[Item], Result],
        count: int,
        *,
        method: str = "spawn",
        on_death: Callable[[], object] | None = None,
    ) -> None:
        """Start the processes.

        Args:
            function: sent to each process once; picklable if processes are spawned.
            count: of processes.
            method: "spawn" starts new processes. "fork" copies this one, and the copies share all
                memory that neither side writes to.
            on_death: called when a process has died, before others repeat what was under way. It
                may change `function` to need less memory. Without it, a death ends the work,
                because the next process would need as much memory.
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
            failing.callback(_kill_children)  # those that have started would wait forever
            try:
                with _no_interrupts():
                    self._pool.submit(os.getpid)
            except BrokenProcessPool:
                raise WorkerDied(_DEATH) from None
            failing.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if failure is not None:  # what is still under way is not needed
            self._give_up()
        self._pool.shutdown(cancel_futures=True)

    def map(self, items: Iterable[Item | Pause]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result, in the order of the items. Few are in memory at once."""
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
        except BrokenProcessPool as error:  # handled when it is the item's turn
            lost: Future[Result] = Future()
            lost.set_exception(error)
            return lost

    def _next(self, waiting: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
        """Return the first item and its result. If processes die over it, start others."""
        while True:
            item, future = waiting[0]
            was_dead = self._has_dead()
            wait([future], timeout=_LOOK_SECONDS)
            if not future.done():
                if was_dead:  # and the pool has not noticed since
                    self._give_up()
                continue
            try:
                result = future.result()
            except BrokenProcessPool:
                self._start_again(waiting)
            else:
                waiting.popleft()
                self._deaths = 0
                return item, result

    def _has_dead(self) -> bool:
        return any(process.exitcode is not None for process in list(self._pool._processes.values()))

    def _give_up(self) -> None:
        """Kill all processes, and let the pool notice.

        A worker that is killed while it writes a result leaves a part of it. The pool would wait
        for the rest as long as anybody, this process included, could still write it.
        """
        _kill_children()
        results: Any = self._pool._result_queue
        if results is not None:  # the pool has not ended yet
            results._writer.close()

    def _start_again(self, waiting: deque[tuple[Item, Future[Result]]]) -> None:
        """Start other processes, and submit again what the dead ones had not finished."""
        self._deaths += 1
        if self._on_death is None or self._deaths == _MOST_DEATHS:
            raise WorkerDied(_DEATH) from None
        self._pool.shutdown()  # one death ends all its processes, and all futures are done
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
    """Block signals while processes start. They inherit this until they are set up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_functions: list[Callable[[Any], Any]] = []  # in a worker, its only function


def _start_worker(function: Callable[[Any], Any]) -> None:
    # A terminal or scheduler signals all processes, but only the first one answers.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    _functions.append(function)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    # A worker holds both ends of the pipe that it reads work from, so it would wait forever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _work(item: Any) -> Any:
    return _functions[0](item)
