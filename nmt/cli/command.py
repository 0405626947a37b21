"""How a command ends: with an exit status, and one line on stderr if that is not 0.

`nmt` and the scripts of the recipes report every expected failure in this way, so that a shell,
make or cron can tell what happened.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import threading
import warnings
from collections.abc import Callable
from typing import NoReturn

from nmt import console, errors
from nmt.system import program
from nmt.system.files import naming


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call the main function of a script, and exit."""
    program.prepare_process()
    status = exit_status(main)
    program.ignore_signals()
    end_process(status)


def finish(status: int) -> NoReturn:
    """Exit, and let no signal change the status any more."""
    program.ignore_signals()
    sys.exit(status)


def end_process(status: int) -> NoReturn:
    """End this process, whose streams are flushed, whatever its threads do."""
    # While Python ends, it ends each daemon thread that comes back from C++. If that is torch, such
    # as its store, which a rank's signs of life use, C++ then aborts the process with SIGABRT.
    if any(thread.daemon for thread in threading.enumerate()):
        os._exit(status)
    sys.exit(status)


def _report_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    console.warning(f"{category.__name__}: {message}")


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command, report its failure if there is one, and return its exit status.

    Signals interrupt only the command. A command that returns nothing is done.
    """
    warnings.showwarning = _report_warning
    status = _report(command)
    # Python flushes both streams at its end, and if that fails, it says so and ends with 120.
    for stream in (console.stdout(), sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return status


def _report(command: Callable[[], int | None]) -> int:
    def run() -> int:
        status = command()
        if (out := console.stdout()) is not None:  # it may be closed
            with naming("stdout"):
                out.flush()
        return status or errors.EXIT_DONE

    try:
        return program.interruptible(run)
    except errors.NMTError as error:
        if not error.is_said:
            (console.warning if isinstance(error, errors.Stopped) else console.error)(str(error))
        return error.exit_status
    except KeyboardInterrupt:
        console.warning("stopped; run the same command again")
        return errors.EXIT_STOPPED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_stdout():
            return errors.EXIT_DONE  # the reader has seen enough (`| head`)
        console.error(errors.describe(error))
        return errors.EXIT_FAILED
    except Exception as error:
        if errors.is_of_memory(error):
            console.error("out of memory; make the batches smaller, or give the command more")
        elif resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            # Many libraries fail in odd ways then.
            what = " ".join(f"{type(error).__name__}: {error}".split())
            console.error(f"{what}; memory is limited (ulimit -v), which may be the reason")
        else:
            raise  # a fault of nmt, with its traceback
        return errors.EXIT_FAILED


def _nobody_reads_stdout() -> bool:
    if (out := console.stdout()) is None:
        return False
    poll = select.poll()
    poll.register(out.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
