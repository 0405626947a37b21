"""How a command ends: with an exit status, and one line on stderr if that is not 0.

`nmt` and the scripts of the recipes report every expected failure in this way, so that a shell,
make or cron can tell what happened.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from nmt import console
from nmt.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_STOPPED,
    NMTError,
    Stopped,
    describe,
    is_of_memory,
)
from nmt.files import naming


def run(main: Callable[[], None]) -> NoReturn:
    """Call the main function of a script, and exit."""
    begin()
    sys.exit(exit_status(main))


def begin() -> None:
    """Prepare the process for a closed stderr and for signals."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    _hear_signals()
    warnings.showwarning = _report_warning


def _report_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    console.warning(f"{category.__name__}: {message}")


def _hear_signals() -> None:
    """Let signals that end a process raise KeyboardInterrupt, as Ctrl-C does, for a clean end."""
    # Schedulers send these before they kill, and a closed terminal does, except under nohup.
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def exit_status(command: Callable[[], None]) -> int:
    """Run a command, report its failure if there is one, and return its exit status."""
    status = _report(command)
    # Python flushes both streams at its end, and if that fails, it says so and ends with 120.
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return status


def _report(command: Callable[[], None]) -> int:
    try:
        command()
        if sys.stdout is not None:  # it may be closed
            with naming("stdout"):
                sys.stdout.flush()
    except NMTError as error:
        say = console.warning if isinstance(error, Stopped) else console.error
        say(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        console.warning("stopped; run the same command again")
        return EXIT_STOPPED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_stdout():
            return EXIT_DONE  # the reader has seen enough (`| head`)
        console.error(describe(error))
        return EXIT_FAILED
    except Exception as error:
        if is_of_memory(error):
            console.error("out of memory; make the batches smaller, or give the command more")
        elif resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            # Many libraries fail in odd ways then.
            what = " ".join(f"{type(error).__name__}: {error}".split())
            console.error(f"{what}; memory is limited (ulimit -v), which may be the reason")
        else:
            raise  # a fault of nmt, with its traceback
        return EXIT_FAILED
    return EXIT_DONE


def _nobody_reads_stdout() -> bool:
    if sys.stdout is None:
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
