"""How a program of nmt begins and ends: its streams, its signals, and what libraries read.

A program calls `prepare_process` before it imports anything else, so this module imports little.
Nothing here happens when nmt is imported: a library leaves the process of its caller alone.

A signal has one of three answers, and never a traceback:

- While the program starts, it ends the process with EXIT_STOPPED, since nothing has been done.
- While work is `interruptible`, it raises KeyboardInterrupt, as Ctrl-C does, for a clean end.
- After the work it does nothing, because the exit status is known.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time

from nmt.system.streams import open_closed_streams

TYPE_CHECKING = False  # for type checkers it is True; typing itself takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping
    from types import FrameType
    from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
"""Ctrl-C. Schedulers send the next two before they kill, and a closed terminal sends the last."""

_AGAIN_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
"""Of `prctl`: the signal that a process gets when the one that has started it is gone."""


class _Course:
    """How far this process is."""

    answer = "leave"  # to a signal; then "interrupt", and "ignore" in the end
    heard: int = signal.SIGINT  # the last signal


def prepare_process() -> None:
    """Open closed streams, install the signal handlers, and set what libraries read."""
    open_closed_streams()  # also for scripts; Python's stdin and stdout stay None
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
    hear_signals()
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _report_unraisable
    prepare_libraries()


def hear_signals() -> None:
    """Install the signal handlers of a program that starts."""
    _Course.answer = "leave"
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _hear)


def end_with_parent(parent: int) -> None:
    """Let this process get SIGTERM when its parent is gone: now, if that is gone already."""
    import ctypes  # takes milliseconds, and few programs need it

    with contextlib.suppress(AttributeError):  # Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The kernel sends nothing for a parent that was gone before `prctl`. But then this process has
    # another parent by now. For example, 100 had started it and was killed, and `getppid` is 1.
    if parent != os.getppid():
        os.kill(os.getpid(), signal.SIGTERM)


def prepare_libraries() -> None:
    """Set what torch and OpenMP read when they are loaded."""
    from nmt.system.machine import let_waiting_threads_sleep

    let_waiting_threads_sleep()
    let_gpu_memory_grow()
    # oneDNN keeps the newest 1,024 products that it has built, of 0.6 MB or more each. With 64,
    # training and translation are as fast. With none, training takes 1.3 times as long.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    # MKL keeps the buffers of each thread, a larger one beside the smaller ones: 20 MB for a small
    # model. Without them, search and training are as fast. Any value but an empty one means yes.
    os.environ.setdefault("MKL_DISABLE_FAST_MM", "1")
    # Or, where no name server answers, torch reports each connection that it cannot name.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def let_gpu_memory_grow(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let torch's segments of GPU memory grow, unless the user has chosen how it allocates.

    Micro-batches differ in size, and fixed segments leave gaps between them. torch reads the
    environment when it is loaded, so call this before importing torch.
    """
    if "PYTORCH_CUDA_ALLOC_CONF" not in environment:
        environment.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def interruptible(work: Callable[[], int]) -> int:
    """Do work that signals interrupt by KeyboardInterrupt. After it they do nothing."""
    try:
        _Course.answer = "interrupt"
        return work()
    finally:
        # Python looks for signals at calls and at jumps back, so none comes before this.
        _Course.answer = "ignore"


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as the handler of a signal; during an import, soon after it.

    What is raised inside an import may be lost, or turn into another error.
    """
    _Course.heard = number
    while frame is not None and frame.f_code is not interruptible.__code__:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _send_again()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


@contextlib.contextmanager
def handling_signals(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers | None,
) -> Iterator[None]:
    """Have a handler for signals during a block; those that are ignored (nohup) stay ignored.

    handler: None: the one before, whatever the block installs.
    """
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    heard = {number: before for number, before in handlers.items() if before != signal.SIG_IGN}
    for number, before in heard.items():
        signal.signal(number, before if handler is None else handler)
    try:
        yield
    finally:
        for number, before in heard.items():
            if signal.getsignal(number) != signal.SIG_IGN:  # see `ignore_signals`
                signal.signal(number, before)


def ignore_signals() -> None:
    """Ignore signals until the process is gone, also those that come after Python's own end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _hear(number: int, frame: FrameType | None) -> None:
    if _Course.answer == "leave":
        os.write(2, b"nmt: warning: stopped; run the same command again\n")
        os._exit(75)  # EXIT_STOPPED of nmt.errors
    if _Course.answer == "interrupt":
        interrupt(number, frame)


def _report_unraisable(unraisable: Any) -> None:
    """Send a signal again whose KeyboardInterrupt was lost in a finalizer, such as `__del__`."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _send_again()
    else:
        sys.__unraisablehook__(unraisable)


def _send_again() -> None:
    def send(main: int) -> None:
        time.sleep(_AGAIN_SECONDS)
        signal.pthread_kill(main, _Course.heard)

    # Without the locks of `threading`, which the main thread may hold.
    _thread.start_new_thread(send, (_thread.get_ident(),))
