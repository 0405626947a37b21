"""Start the processes of a training run on this machine, as copies of this one, which then waits.

torchrun would start Python anew for each process. Copies share what this process has loaded, torch
above all: 180 MB a process. So nothing here may have used a GPU or several threads before.

torchrun listens on every interface, and asks nobody for a password. Here the processes meet on
loopback only, which other machines cannot reach.

The processes of `nmt train` with two ranks, and who ends with whom:

    launcher: nmt train        the store where ranks meet is a thread in it
        rank 0: nmt train      in a session of its own; has threads that save, prefetch,
        rank 1: nmt train        and give signs of life

    what happens               the launcher                    the ranks
    Ctrl-C, SIGTERM, SIGUSR1   passes it on; ends with 75      save and stop after the same update
      or a closed terminal       (after 120 s SIGKILL and 1)     (75); a second Ctrl-C does not wait
    a closed terminal (nohup)  ignores it                      ignore it
    kill -9 of the launcher    is gone, and so is the store    get SIGTERM from the kernel, save and
                                                                 stop (`end_with_parent`)
    SIGTERM to one rank        ends with 75                    all stop, by a flag with the gradient
    kill -9 of one rank        names it, sends SIGTERM, and    the other finishes what it is saving,
                                 after 30 s SIGKILL; ends        and ends (1)
                                 with 1
    an error of one rank       likewise, but names none        the other hears why, and ends (1)
    one rank is paused         waits until the other ends;     the other ends (1) after 3 minutes
                                 then as after kill -9

Threads end with their rank. A rank has a session of its own, so a terminal signals the launcher
only, and nobody hears one Ctrl-C twice. A run in one process has no launcher.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from nmt import console
from nmt.errors import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from nmt.system import program
from nmt.system.distributed import AGAIN
from nmt.system.machine import default_threads, let_go_of_code

_LOOPBACK = "127.0.0.1"  # `localhost` need not resolve
_PATIENCE = "120"
"""Seconds that processes have to save after a signal, unless the user says otherwise."""
_PATIENCE_AFTER_FAILURE = 30.0
"""Seconds that they have after another one has failed."""
_LOOKS_AGAIN = 0.1  # seconds


def launch(run: Callable[[], int], processes: int) -> int:
    """Call a function in copies of this process that are ranks of one run; return an exit status.

    run: returns the exit status of a rank.
    processes: their number.
    """
    listening = socket.create_server((_LOOPBACK, 0))
    interface = socket.if_indextoname(1)  # loopback: `lo` on Linux
    os.environ |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    # Or libraries that each of them loads would start threads for all cores.
    os.environ.setdefault("OMP_NUM_THREADS", str(default_threads(processes)))
    place = {
        "MASTER_ADDR": _LOOPBACK,
        "MASTER_PORT": str(listening.getsockname()[1]),
        "TORCHELASTIC_RUN_ID": "nmt",
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # that of this process
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
    }
    for stream in (console.stdout(), sys.stderr):  # or each copy would write what is left in them
        if stream is not None:
            stream.flush()
    gc.freeze()  # looking for garbage writes to each object, and then copies share it no more
    launcher, heard = os.getpid(), list[int]()
    started: dict[int, int] = {}  # by rank
    with program.handling_signals(lambda number, _: heard.append(number)):
        # Until all ranks can hear them. One that comes before is passed on then.
        signal.pthread_sigmask(signal.SIG_BLOCK, program.SIGNALS)
        try:
            for rank in range(processes):
                with warnings.catch_warnings():
                    # Of threads that a copy does not have: here only those of BLAS, which wait.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    started[rank] = os.fork()
                if started[rank] == 0:
                    listening.close()
                    os.environ |= place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                    console.set_rank(rank)
                    _be_rank(run, launcher)
            store = TCPStore(
                _LOOPBACK,
                listening.getsockname()[1],
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=listening.detach(),
            )
            signal.pthread_sigmask(signal.SIG_UNBLOCK, program.SIGNALS)
            let_go_of_code()
            statuses = _wait_for(started, heard)
            del store  # after the last one that may ask it
        finally:
            _send(signal.SIGKILL, started)  # of those that are left after an error
        program.ignore_signals()
    return _status_of([statuses[rank] for rank in range(processes)])


def _be_rank(run: Callable[[], int], launcher: int) -> NoReturn:
    """Be a rank, in a copy of the launcher, and end."""
    status = EXIT_FAILED
    try:
        os.setsid()
        program.hear_signals()
        program.end_with_parent(launcher)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, program.SIGNALS)
        status = run()
    except BaseException:  # a fault of nmt
        traceback.print_exc()
    finally:
        os._exit(status)  # what called `launch` goes on in the launcher only


def _wait_for(started: dict[int, int], heard: list[int]) -> dict[int, int]:
    """Return the exit statuses by rank, negative if a signal ended one, once all have ended.

    started: the processes by rank, from which those that have ended are taken out.
    heard: signals to pass on, which a handler adds.
    """
    patience = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _PATIENCE))
    statuses: dict[int, int] = {}
    give_up_at, has_failed = math.inf, False
    while started:
        for rank, process in list(started.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del started[rank]
                statuses[rank] = os.waitstatus_to_exitcode(status)
        if heard:
            _send(heard.pop(0), started)
            give_up_at = time.monotonic() + patience
        elif any(statuses.values()) and not has_failed:
            has_failed = True
            _send(signal.SIGTERM, started)
            give_up_at = min(give_up_at, time.monotonic() + _PATIENCE_AFTER_FAILURE)
        elif time.monotonic() > give_up_at:
            _send(signal.SIGKILL, started)
        if started:
            time.sleep(_LOOKS_AGAIN)
    return statuses


def _send(number: int, processes: dict[int, int]) -> None:
    for process in processes.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _status_of(statuses: Sequence[int]) -> int:
    """Return the exit status of a run, from those of its processes, and say which were killed."""
    found = set[int]()
    for rank, status in enumerate(statuses):
        if -status in program.SIGNALS:  # before it hears them, when nothing has been done
            status = EXIT_STOPPED
        elif status < 0:
            console.error(f"process {rank} was ended by {signal.Signals(-status).name}; {AGAIN}")
            status = EXIT_FAILED
        found.add(status)
    if failed := found - {EXIT_DONE, EXIT_STOPPED}:
        return min(failed)
    if statuses and statuses[0] < 0:  # the one that says so
        console.warning("stopped; run the same command again")
    return max(found, default=EXIT_STOPPED)
