"""Start the processes of a training run on this machine, by the agent of torchrun.

This process then only waits. The agent passes signals on, and if a process fails, it ends the
others: with SIGTERM, and in the end with SIGKILL. torchrun itself says little of their exit
statuses. Here they become one, as of a run in one process.

torchrun listens on every interface, and asks nobody for a password. Here the processes meet on
loopback only, which other machines cannot reach.

The processes of `nmt train` with two ranks, and who ends with whom:

    launcher: nmt train        the agent is an object in it, and so is the store where ranks meet
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

import logging
import os
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Sequence

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.agent.server.api import WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.api import SubprocessContext
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from nmt import console
from nmt.errors import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from nmt.system import program
from nmt.system.distributed import AGAIN, REASON
from nmt.system.machine import default_threads

_LOOPBACK = "127.0.0.1"  # `localhost` need not resolve
_PATIENCE = "120"
"""Seconds that processes have to save after a signal, unless the user says otherwise."""


def _on_loopback() -> StaticTCPRendezvous:
    """Return where processes meet: a store of this process, at a free port of loopback."""
    listening = socket.create_server((_LOOPBACK, 0))
    port = listening.getsockname()[1]
    meeting = StaticTCPRendezvous(
        _LOOPBACK, port, rank=0, world_size=1, run_id=str(uuid.uuid4()), timeout=0
    )
    # Its own store would listen on every interface.
    fd = listening.detach()
    meeting._store = TCPStore(
        _LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=fd
    )
    return meeting


class _Agent(LocalElasticAgent):
    """An agent that passes every signal on, and knows how its processes have ended."""

    patience: int
    """Seconds that processes have to save after a signal."""

    def _shutdown(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        if death_sig is not None:
            timeout = self.patience  # which torch knows only from 2.13 on
        try:
            if self._pcontext is not None:
                self._pcontext.close(death_sig, timeout)
        except SignalException as another:  # such as a second Ctrl-C, while they save
            self._shutdown(another.sigval, timeout)

    def statuses(self) -> list[int]:
        """Return the exit status of each process; it is negative if a signal ended it."""
        if not isinstance(self._pcontext, SubprocessContext):  # nothing was started
            return []
        started = self._pcontext.subprocess_handlers
        return [started[rank].proc.returncode for rank in sorted(started)]


def launch(words: Sequence[str], processes: int, reason: str) -> int:
    """Run Python in some processes that are ranks of one run, and return an exit status.

    words: what follows `python` on its command line.
    processes: their number.
    reason: why so many, for the log.
    """
    heard = [one.name for one in program.SIGNALS if signal.getsignal(one) != signal.SIG_IGN]
    os.environ |= {"TORCHELASTIC_SIGNALS_TO_HANDLE": ",".join(heard), REASON: reason}
    if "PYTHON_EXEC" not in os.environ:  # which may be a script that starts Python
        os.environ[program.PARENT] = str(os.getpid())
    interface = socket.if_indextoname(1)  # loopback: `lo` on Linux
    os.environ |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    # Or the libraries of each would start threads for all cores.
    os.environ.setdefault("OMP_NUM_THREADS", str(default_threads(processes)))
    patience = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _PATIENCE))
    logging.disable()  # the processes say what happens
    spec = WorkerSpec(
        role="rank",
        local_world_size=processes,
        entrypoint=os.environ.get("PYTHON_EXEC", sys.executable),
        args=("-u", *words),
        rdzv_handler=_on_loopback(),
        max_restarts=0,
        monitor_interval=0.1,
        local_addr=_LOOPBACK,
    )
    with tempfile.TemporaryDirectory() as logs:  # in which torchrun leaves an empty folder
        agent = _Agent(spec, DefaultLogsSpecs(logs))
        agent.patience = patience
        try:
            agent.run()
        except SignalException:
            pass
        finally:
            program.ignore_signals()
    return _status_of(agent.statuses())


def _status_of(statuses: Sequence[int]) -> int:
    """Return the exit status of a run, from those of its processes, and say which were killed."""
    found = set[int]()
    for rank, status in enumerate(statuses):
        if -status in program.SIGNALS:  # before it hears them, when nothing has been done
            status = EXIT_STOPPED
        elif status < 0:
            name = signal.Signals(-status).name
            console.error(f"process {rank} was ended by {name}; {AGAIN}")
            status = EXIT_FAILED
        found.add(status)
    if failed := found - {EXIT_DONE, EXIT_STOPPED}:
        return min(failed)
    if statuses and statuses[0] < 0:  # the one that says so
        console.warning("stopped; run the same command again")
    return max(found, default=EXIT_STOPPED)
