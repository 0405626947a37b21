"""The processes of one training run: the only module that uses torch.distributed.

With one process, every operation does nothing. Under torchrun the processes find each other by its
environment variables. They use gloo on CPUs and NCCL on GPUs.

A rank that is gone breaks the operations of the others. If one is stopped, or its machine does not
answer, its signs of life end, and the others end after three minutes. If only its main thread
hangs, operations break after `WAIT`. torchrun then ends the processes that are left.

What rank 0 hears if rank 1 cannot go on:

    rank 1                       sends                           rank 0
    has no memory in an update   a flag, with the gradient       drops the same update (`update.py`)
    is asked to stop             a flag, with the gradient       stops after the same update
    fails as we expect, in       its error, at the end of the    raises the same error
      `raise_on_all_ranks`         block
    fails in another way         its last word, to the store     its operation breaks; it ends with
                                                                   this word (`cause_elsewhere`)
    is killed                    nothing; connections close      its operation breaks; no word
    is paused, or its machine    no more signs of life           a thread ends it after 3 minutes
      is gone
    hangs in its main thread     signs of life, by a thread      its operation breaks after `WAIT`

If rank 1 has ended, torchrun (or `nmt.system.launch`) also sends SIGTERM to rank 0.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from nmt import console
from nmt.errors import EXIT_FAILED, NMTError, Stopped, UsageError
from nmt.system.machine import version_of_code
from nmt.system.program import end_with_parent, handling_signals
from nmt.system.signs_of_life import SignsOfLife

WAIT = timedelta(minutes=20)
"""How long a rank waits for another in one operation. The first rank may check or save a lot."""
_MEETING, _CONNECTING = timedelta(minutes=3), timedelta(minutes=1)
"""How long a rank waits at the start until all have begun, and then until all are connected."""
AGAIN = "run the same command again to go on from the last save"
# Keys of torchrun's store, which outlives the processes if torchrun starts them again.
_LAST_WORD = "last word"  # of the first rank that ends without the others
_ASKED = "nmt was asked to stop"


Pending = dist.Work
"""An operation that is under way. Its `wait` returns when it is done; on a GPU, when what follows
there will come after it."""


def from_system(error: NMTError | OSError) -> NMTError:
    """Return an error of the system as one for the user."""
    if isinstance(error, NMTError):
        return error
    return NMTError(f"{error.filename or 'writing'}: {error.strerror or error}")


@dataclass
class Ranks:
    """This process among the processes of the run."""

    rank: int
    local_rank: int
    local_world_size: int
    world_size: int
    under_torchrun: bool = False
    reason: str = field(default="", compare=False)
    """Why there are so many processes, for people."""
    _store: Any = field(default=None, repr=False, compare=False)
    """The part of torchrun's store that is of this start, once the ranks have met."""
    _signs: SignsOfLife | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_environment(cls, reason: str = "") -> Ranks:
        """Read the variables of torchrun or of `nmt.system.launch`; without them this is all.

        reason: why there are so many processes, unless torchrun has started them.
        """
        under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
        return cls(
            rank=int(os.environ.get("RANK", "0")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
            world_size=int(os.environ.get("WORLD_SIZE", "1")),
            under_torchrun=under_torchrun,
            reason=reason or "by torchrun" * under_torchrun,
        )

    @property
    def in_group(self) -> bool:
        """Whether there are operations between ranks: also for one process under torchrun."""
        return self.world_size > 1 or self.under_torchrun

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.rank == 0

    def join(self, before_end: Callable[[str], object] = lambda _: None) -> None:
        """Meet the other processes.

        before_end: called from a thread with the reason, before it ends this process because
            another rank is lost.

        Stopped if torchrun starts a run again that was asked to stop. UsageError if a rank has
        another version of the code. NMTError if the ranks do not come, or do not reach each other.
        """
        if not self.in_group:
            return
        # Its functions have the group that exists at their import as a default. Imported later, by
        # the optimiser, they would hold our group and keep its threads alive until Python ends,
        # where one of them aborts the process now and then.
        importlib.import_module("torch.distributed.nn.functional")
        gpu = ",cuda:nccl" if torch.cuda.is_available() else ""
        end_with_parent(os.getppid())
        # One of them ends this process, also inside torch: the others might wait in vain, or this
        # one for a store that is gone.
        with handling_signals(signal.SIG_DFL), contextlib.ExitStack() as leaving:
            where = os.environ.get("MASTER_ADDR")
            unreached = f"nothing answers at {where}, where the processes meet; {AGAIN}"
            end = partial(self._end_without, before_end)
            try:
                places, unreached = self._meet()
                limit = threading.Timer(_CONNECTING.total_seconds(), end, [unreached])
                leaving.callback(limit.cancel)
                limit.start()  # Gloo tries five times as long as it is told
                this = {"store": self._store, "rank": self.rank, "world_size": self.world_size}
                dist.init_process_group(f"cpu:gloo{gpu}", timeout=WAIT, **this)
            except RuntimeError as error:
                raise NMTError(unreached) if is_of_the_group(error) else error from error
            self._signs = SignsOfLife(self._store.clone(), self.rank, places)
            self._signs.watch(end)

    def _meet(self) -> tuple[list[str], str]:
        """Wait until all ranks have begun, and refuse another version of the code.

        Returns where each rank is, and what to say if they do not reach each other.
        """
        lasting, _, _ = next(rendezvous("env://", timeout=_MEETING))
        lasting.set_timeout(WAIT)
        if lasting.check([_ASKED]):
            raise Stopped(
                f"torchrun has started this run again, but it was asked to stop "
                f"({lasting.get(_ASKED).decode()}); run the same command again to resume"
            )
        # Or what was written before a restart (--max-restarts) would be read again.
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = PrefixStore(f"start {restarts} with {self.world_size}", lasting)
        host, address = socket.gethostname(), os.environ.get("GLOO_SOCKET_IFNAME", "")
        with contextlib.suppress(OSError):
            address = address or socket.gethostbyname(host)  # as Gloo does
        self._store.set(f"rank {self.rank}", json.dumps([host, address, version_of_code()]))
        keys = [f"rank {rank}" for rank in range(self.world_size)]
        with contextlib.suppress(dist.DistError):  # the time is over
            self._store.wait(keys, _MEETING)
        if absent := [key for key in keys if not self._store.check([key])]:
            raise NMTError(f"{', '.join(absent)} did not begin within 3 minutes; {AGAIN}")
        ranks = [json.loads(value) for value in self._store.multi_get(keys)]
        versions = {version: host for host, _, version in ranks}
        if len(versions) > 1:
            told = ", but ".join(f"{host} has {version}" for version, host in versions.items())
            raise UsageError(f"{told}; install the same everywhere")
        hosts = dict.fromkeys(f"{host} ({address})" for host, address, _ in ranks)
        unreached = (
            f"the processes do not reach each other at {', '.join(hosts)}; name the network "
            "interface that joins the machines, for example GLOO_SOCKET_IFNAME=eth0"
        )
        # Debian gives a machine's own name a loopback address, which Gloo then tells the others.
        # One that listens there in vain would learn nothing of it, until its time is over.
        if len(hosts) > 1 and any(address.startswith("127.") for _, address, _ in ranks):
            raise NMTError(unreached)
        return [f"{key} on {host}" for key, (host, *_) in zip(keys, ranks, strict=True)], unreached

    def _end_without(self, before_end: Callable[[str], object], reason: str) -> None:
        """End this process from a thread, because its main thread waits for somebody in vain."""
        try:
            console.error(f"{reason}; {AGAIN}")
            word = threading.Thread(target=self.leave_word, args=("failed", reason), daemon=True)
            word.start()
            word.join(timeout=2.0)  # it may wait for a store that is gone
            before_end(reason)
        finally:
            os._exit(EXIT_FAILED)

    def stop_watching(self) -> None:
        """End the signs of life: this rank ends by itself, and so may the others."""
        if self._signs is not None:
            self._signs.end()

    def leave(self) -> None:
        """Part from the other processes."""
        self.stop_watching()
        if self.in_group and dist.is_initialized():
            dist.destroy_process_group()

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over ranks, in place."""
        if self.in_group:
            dist.all_reduce(tensor)
        return tensor

    def start_sum(self, tensor: Tensor) -> Pending:
        """Begin to replace `tensor` by its sum over the ranks of a group."""
        return dist.all_reduce(tensor, async_op=True)  # type: ignore[no-any-return]

    def broadcast_(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by that of the first rank, in place."""
        if self.in_group:
            dist.broadcast(tensor, src=0)
        return tensor

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set on any rank."""
        return bool(self.sum_(torch.tensor(int(flag))))

    @contextlib.contextmanager
    def raise_on_all_ranks(self) -> Iterator[None]:
        """Let an expected error of any rank in this block be raised on all of them.

        Without it the others would wait for a rank that has gone. No rank may use another
        collective operation inside the block.

        For example, the disk of rank 1 is full. At the end of the block rank 0 sends None, and rank
        1 `(NMTError, "out/log: ...")`. Rank 1 raises its own error, and rank 0 raises
        `NMTError("rank 1: out/log: ...")`. If one of them did a sum inside the block, the
        operations of the two would no longer match.
        """
        problem: NMTError | None = None
        try:
            yield
        except (NMTError, OSError) as error:
            problem = from_system(error)
        reports = self.gather(None if problem is None else (type(problem), str(problem)))
        if problem is not None:
            raise problem
        for rank, (kind, text) in ((n, report) for n, report in enumerate(reports) if report):
            of_another: NMTError = kind(f"rank {rank}: {text}")
            of_another.is_said = not self.is_first
            raise of_another

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, in order of rank, on every rank."""
        if not self.in_group:
            return [value]
        values = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def agree_to_stop(self, reason: str) -> str:
        """Return why a rank was asked to stop, and note it in case that torchrun starts it again.

        reason: of this rank; empty: it was not asked.
        """
        reason = next(filter(None, self.gather(reason)))
        self._note_request(reason)
        return reason

    def _note_request(self, reason: str) -> None:
        if self._store is not None:
            with contextlib.suppress(dist.DistError):
                self._store.underlying_store.set(_ASKED, reason)

    def leave_word(self, status: str, reason: str) -> None:
        """Tell the other ranks, if possible, why this one ends without them.

        status: stopped or failed. If it is stopped, torchrun does not start the run again.
        """
        if status == "stopped":
            self._note_request(reason)
        if self._store is not None:
            with contextlib.suppress(dist.DistError):  # the first word stands
                self._store.compare_set(_LAST_WORD, "", json.dumps([self.rank, status, reason]))

    def cause_elsewhere(self, error: BaseException) -> NMTError | None:
        """Return what another rank has said at its end, if that is why this one cannot go on.

        A rank that was killed says nothing. Who has started it names it.
        """
        is_lost = is_of_the_group(error)
        if self._store is None or not (is_lost or isinstance(error, KeyboardInterrupt)):
            return None
        with contextlib.suppress(dist.DistError):
            self._store.wait([_LAST_WORD], timedelta(seconds=2 if is_lost else 0.1))
            rank, status, reason = json.loads(self._store.get(_LAST_WORD).decode())
            kind = Stopped if status == "stopped" else NMTError
            was = "was stopped" if status == "stopped" else "failed"
            return kind(f"rank {rank} {was}: {reason}; {AGAIN}")
        return NMTError(f"another process is gone or hangs: {error}; {AGAIN}") if is_lost else None


def is_of_the_group(error: BaseException) -> bool:
    """Tell whether an operation between ranks has failed, by torch's message.

    One for which this rank has no memory is its own failure.
    """
    if any(words in str(error) for words in ("out of memory", "CUDA calloc")):
        return False
    return isinstance(error, dist.DistError) or any(
        words in str(error) for words in ("gloo", "Connection", "pair closure", "NCCL")
    )
