"""A function mapped over items in several processes, results in order."""

from __future__ import annotations

import contextlib
import copy
import gc
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import connection
from typing import Any, Generic, Self

from nmt.errors import WorkerDied
from nmt.system.prefetch import AHEAD, Item, Pause, Result, in_order
from nmt.system.ray_workers import RayWorkers

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM}

# How often in a row processes may die over the same item.
_MOST_DEATHS = 5
_DEATH = "a worker process has died, most likely for lack of memory; try fewer --workers"


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int | None
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in the order of the items. Few are in memory at once.

    Without a number of workers, a Ray cluster does the work. With one worker, everything happens in
    this process. Otherwise processes are spawned. Then `function`, items and results must be
    picklable, and `function` is sent to each process once.
    """
    if workers == 1:
        for item in items:
            yield item, function(item)
    else:
        with RayWorkers(function) if workers is None else Workers(function, workers) as group:
            yield from group.map(items)


def number_of_this_worker() -> int:
    """Return which of the workers that were started together this process is, from 0.

    Nobody counts them in shared memory: whoever dies with its lock would let the others wait.
    """
    return int(multiprocessing.current_process().name)


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

        function: sent to each process once; picklable if processes are spawned.
        count: of processes.
        method: "spawn" starts new processes. "fork" copies this one, and the copies share all
            memory that neither side writes to.
        on_death: called when a process has died, before others repeat what was under way. It may
            change `function` to need less memory. Without it, a death ends the work, because the
            next process would need as much memory.
        """
        self._function = function
        self._count = count
        self._ahead = AHEAD * count
        self._method = method
        self._on_death = on_death
        self._deaths = 0  # over the item that is waited for
        self._start()

    def _start(self) -> None:
        self._processes: list[_Process] = []
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        with contextlib.ExitStack() as failing:
            failing.callback(self._kill)
            # Or a fork might collect garbage that was left here, such as an engine of CTranslate2,
            # whose end would wait for threads that only this process has. And until `_kill`, this
            # process writes to no object to count it, since that would copy what all share.
            gc.freeze()
            with _no_interrupts():
                # Before there are threads, which a fork would lack.
                for number in range(self._count):
                    self._processes.append(_Process(self._function, self._method, number))
                    self._idle.put(self._processes[-1])
            failing.pop_all()
        # Each waits for one process, and so sees its death at once.
        self._threads = ThreadPoolExecutor(self._count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()  # what is still under way is not needed
        self._threads.shutdown(cancel_futures=True)

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
        gc.unfreeze()

    def map(self, items: Iterable[Item | Pause]) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result, in the order of the items. Few are in memory at once."""
        return in_order(items, self._submit, self._take_first, ahead=self._ahead)

    def _submit(self, item: Item) -> Future[Result]:
        with _no_interrupts():  # a thread may start, and signals are for this one
            return self._threads.submit(self._call, item)

    def _call(self, item: Item) -> Result:
        process = self._idle.get()
        try:
            result: Result = process.call(item)
        finally:
            self._idle.put(process)
        return result

    def _take_first(self, waiting: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
        """Return the first item and its result. If processes die over it, start others."""
        while True:
            item, future = waiting[0]
            try:
                result = future.result()
            except WorkerDied:
                self._deaths += 1
                if self._on_death is None or self._deaths == _MOST_DEATHS:
                    raise
                self._start_again(waiting, self._on_death)
            else:
                waiting.popleft()
                self._deaths = 0
                return item, result

    def _start_again(
        self, waiting: deque[tuple[Item, Future[Result]]], on_death: Callable[[], object]
    ) -> None:
        """Start other processes, and submit again what the dead ones had not finished."""
        self._kill()
        self._threads.shutdown()  # all futures are done
        on_death()
        self._start()
        for place, (item, future) in enumerate(waiting):
            if isinstance(future.exception(), WorkerDied):
                waiting[place] = item, self._submit(item)


class _Process:
    """A worker process, and this side's end of the pipe to it."""

    def __init__(self, function: Callable[[Any], Any], method: str, number: int) -> None:
        context: Any = multiprocessing.get_context(method)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(function, theirs), name=str(number), daemon=True
        )
        self._process.start()
        theirs.close()  # or it would stay open when the worker dies, and we would wait forever

    def call(self, item: Any) -> Any:
        """Return the function's result of an item, or raise its error.

        WorkerDied if the process has died, or dies over it.
        """
        try:
            self._pipe.send(item)
            result, error = self._pipe.recv()
        except (EOFError, OSError):
            # Not raised here: its context would keep the buffer of `send` in a circle, and Python
            # from 3.13 on complains of a buffer in use when it collects that as garbage.
            result, error = None, WorkerDied(_DEATH)
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(function: Callable[[Any], Any], pipe: connection.Connection[Any, Any]) -> None:
    """Answer each item with the function's result and None, or with None and its error."""
    # A terminal or scheduler signals all processes, but only the first one answers.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the other side has ended
        while True:
            item = pipe.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = function(item), None
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = None, _sendable(error)
            pipe.send(answer)


def _sendable(error: Exception) -> Exception:
    try:
        copy.copy(error)  # so the other side will make it
    except Exception:  # whatever its class raises if it wants other arguments
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _die_with_parent() -> None:
    # A forked worker holds both ends of its pipe, so it would wait forever.
    if (parent := multiprocessing.parent_process()) is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block signals while processes and threads start, which inherit this."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
