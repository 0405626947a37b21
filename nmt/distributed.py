"""The processes of one training run: the only module that uses torch.distributed.

With one process, every operation does nothing. Under torchrun the processes find each other by its
environment variables. They use gloo on CPUs and NCCL on GPUs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.rank_store import ASKED, BEAT, EXIT_REASON, OVER, RankLost, RankStopped, RankStore, gone

_SENT_AT_ONCE = 1 << 24  # values of a vector: 64 MB in fp32


class Pending(Protocol):
    """An operation that is under way."""

    def wait(self) -> object:
        """Return when it is done; on a GPU, when what follows there will come after it."""


def from_system(error: NMTError | OSError) -> NMTError:
    """Return an error of the system as one for the user."""
    if isinstance(error, NMTError):
        return error
    return NMTError(f"{error.filename or 'writing'}: {error.strerror or error}")


@dataclass(frozen=True)
class Ranks:
    """This process among the processes of the run."""

    rank: int
    local_rank: int
    local_world_size: int
    world_size: int
    under_torchrun: bool = False

    @classmethod
    def from_environment(cls) -> Ranks:
        """Read torchrun's variables; without them there is one process."""
        return cls(
            rank=int(os.environ.get("RANK", "0")),
            local_rank=int(os.environ.get("LOCAL_RANK", "0")),
            local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
            world_size=int(os.environ.get("WORLD_SIZE", "1")),
            under_torchrun="TORCHELASTIC_RUN_ID" in os.environ,
        )

    @property
    def in_group(self) -> bool:
        """Whether there are operations between ranks: also for one process under torchrun."""
        return self.world_size > 1 or self.under_torchrun

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.rank == 0

    def join(self) -> None:
        """Meet the other processes.

        Raises:
            Stopped: if torchrun starts a run again that was asked to stop.
        """
        if self.in_group:
            # Its functions have the group that exists at their import as a default. Imported later,
            # by the optimiser, they would hold our group and keep its threads alive until Python
            # ends, where one of them aborts the process now and then.
            importlib.import_module("torch.distributed.nn.functional")
            gpu = ",cuda:nccl" if torch.cuda.is_available() else ""
            lasting, rank, size = next(rendezvous("env://"))
            if lasting.check([ASKED]):
                raise Stopped(
                    f"torchrun has started this run again, but it was asked to stop "
                    f"({lasting.get(ASKED).decode()}); run the same command again to resume"
                )
            # Or what was written before a restart (--max-restarts) would be read again.
            start = f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')} with {size}"
            store = PrefixStore(start, lasting)
            store.set(f"{BEAT}{rank}", "")
            dist.init_process_group(f"cpu:gloo{gpu}", store=store, rank=rank, world_size=size)
            group = RankStore(lasting, store)
            _groups[:] = [group]
            # Without torchrun, processes of one machine may not see each other, as in containers.
            processes = self.gather([os.environ.get("GROUP_RANK", f"of {rank}"), os.getpid()])
            group.machines = [machine for machine, _ in processes]
            group.siblings = {
                other: process
                for other, (machine, process) in enumerate(processes)
                if machine == processes[rank][0] and other != rank
            }

    def leave(self) -> None:
        """Part from the other processes."""
        if self.in_group and dist.is_initialized():
            dist.destroy_process_group()

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over ranks, in place."""
        if self.in_group:
            _count_an_operation()
            dist.all_reduce(tensor)
        return tensor

    def start_sum(self, tensor: Tensor, *, on: int | None = None) -> Pending:
        """Begin to replace `tensor` by its sum over the ranks of a group.

        on: the only rank that needs the sum; on the others the content is then undefined.
        """
        _count_an_operation()
        pending: Pending = (
            dist.all_reduce(tensor, async_op=True)
            if on is None
            else dist.reduce(tensor, dst=on, async_op=True)
        )
        return pending

    def broadcast_(self, tensor: Tensor, *, source: int = 0) -> Tensor:
        """Replace `tensor` by that of one rank, in place."""
        if self.in_group:
            _count_an_operation()
            dist.broadcast(tensor, src=source)
        return tensor

    def any(self, flag: bool) -> bool:
        """Tell whether the flag is set on any rank."""
        return bool(self.sum_(torch.tensor(int(flag))))

    @contextlib.contextmanager
    def raise_on_all_ranks(self) -> Iterator[None]:
        """Let an expected error of any rank in this block be raised on all of them.

        Without it the others would wait for a rank that has gone. No rank may use another
        collective operation inside the block.
        """
        problem: NMTError | None = None
        try:
            yield
        except (NMTError, OSError) as error:
            problem = from_system(error)
        report = None if problem is None else [type(problem).__name__, str(problem)]
        reports = self.gather(report)
        if problem is not None:
            raise problem
        for rank, report in enumerate(reports):
            if report is not None:
                kinds = {kind.__name__: kind for kind in (UsageError, DataError, Stopped)}
                raise kinds.get(report[0], NMTError)(f"rank {rank}: {report[1]}")

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's JSON value, in order of rank, on every rank."""
        if not self.in_group:
            return [value]
        _count_an_operation()
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(data)]))
        longest = int(max(sizes))
        padded = torch.nn.functional.pad(data, (0, longest - len(data)))
        parts = [torch.empty(longest, dtype=torch.uint8) for _ in sizes]
        dist.all_gather(parts, padded)
        return [
            json.loads(part[: int(size)].numpy().tobytes())
            for part, size in zip(parts, sizes, strict=True)
        ]

    def agree_to_stop(self, reason: str) -> str:
        """Return why a rank was asked to stop, and note it in case that torchrun starts it again.

        reason: of this rank; empty: it was not asked.
        """
        reason = next(filter(None, self.gather(reason)))
        self._asked_to_stop(reason)
        return reason

    def _asked_to_stop(self, reason: str) -> None:
        for group in _groups:
            with contextlib.suppress(dist.DistError):
                group.ask_to_stop(reason)

    def publish_stop(self, reason: str) -> None:
        """Tell the other ranks, if possible, that this one stops without waiting for them."""
        self._asked_to_stop(reason)
        for group in _groups:
            with contextlib.suppress(dist.DistError):
                group.publish_exit_reason([self.rank], "stopped", reason)

    def exit_reason(self) -> RankLost | RankStopped | None:
        """Return what has become of another rank: torchrun may have stopped this one for it."""
        for group in _groups:
            with contextlib.suppress(dist.DistError):
                group.beats(self.world_size)
                return group.exit_reason()
        return None

    def cause_elsewhere(self, error: Exception) -> RankLost | RankStopped | None:
        """Return which rank was lost, if that caused an error; else None.

        A rank that fails for its own reason publishes it in the store. The others read it. If
        there is none, they report themselves there, so that a silent rank can be named.
        """
        if self.world_size == 1:
            return None
        (group,) = _groups
        if not _is_of_the_group(error):
            kind = "" if isinstance(error, NMTError) else f"{type(error).__name__}: "
            with contextlib.suppress(dist.DistError):
                group.publish_exit_reason(
                    [self.rank], "lost", f"rank {self.rank} failed: {kind}{error}"
                )
            return None
        try:
            return self._find_lost(group, error)
        except dist.DistError:  # the machine with torchrun's store is gone, and that of rank 0
            return RankLost(f"the ranks have lost touch, and torchrun is gone: {error}", [0])

    def _find_lost(self, group: RankStore, error: Exception) -> RankLost | RankStopped | None:
        """Find out which rank was lost."""
        store = group.store
        store.set(f"left/{self.rank}", "")
        before = group.beats(self.world_size)
        with contextlib.suppress(dist.DistStoreError):
            store.wait([EXIT_REASON], timedelta(seconds=2))
            return group.exit_reason()
        silent: list[int] = []
        for rank in range(self.world_size):
            try:
                store.wait([f"left/{rank}"], timedelta(seconds=1))
            except dist.DistStoreError:
                silent.append(rank)
        # One whose main thread is stuck, as in an operation of NCCL, still shows signs of life.
        after = group.beats(self.world_size)
        silent = [rank for rank in silent if after[rank] == before[rank]]
        if silent:
            return RankLost(gone(silent), silent)
        return RankLost(f"the ranks have lost touch: {error}", [])


class Heartbeat:
    """Signs of life of this process, for a thread that goes on while the main thread is stuck.

    It has a connection to the store of its own: one that waits for a key holds up its connection.
    """

    def __init__(self, ranks: Ranks) -> None:
        """Connect; the ranks must have met."""
        (self._of_main,) = _groups
        self._ranks = ranks
        self._count = 0
        self._connect()

    @property
    def machines(self) -> list[str]:
        """The machine of each rank."""
        return self._of_main.machines

    def _connect(self) -> None:
        lasting, store = self._of_main.lasting.clone(), self._of_main.store.clone()
        self._group = dataclasses.replace(self._of_main, lasting=lasting, store=store)

    @property
    def operations(self) -> int:
        """How many operations between ranks the main thread has begun."""
        return self._of_main.operations

    def beat(self) -> tuple[list[str], RankLost | RankStopped | None] | None:
        """Show that this process lives; return each rank's last sign of life, and why one left.

        Signs differ from each other, and end in the number of operations begun.

        Returns:
            None if the store did not answer for some minutes.

        Raises:
            RuntimeError: if the store is gone.
        """
        self._count += 1
        try:
            self._say(f"{self._count} {self.operations}")
            return self._group.beats(self._ranks.world_size), self._group.exit_reason()
        except dist.DistStoreError:
            self._connect()
            return None

    def publish_exit_reason(self, status: str, reason: str, lost: list[int]) -> None:
        """Tell the others why this rank ends: stopped, or failed as others are lost."""
        with contextlib.suppress(RuntimeError):
            if status == "stopped":
                self._group.ask_to_stop(reason)
                self._group.publish_exit_reason([self._ranks.rank], status, reason)
            else:
                self._group.publish_exit_reason(lost, "lost", reason)

    def end(self) -> None:
        """Tell the others that this process may be silent from now on."""
        with contextlib.suppress(RuntimeError):
            self._say(OVER)

    def _say(self, beat: str) -> None:
        self._group.store.set(f"{BEAT}{self._ranks.rank}", beat)


def _count_an_operation() -> None:
    for group in _groups:
        group.operations += 1


def places_of(length: int, first: int, ranks: int) -> tuple[slice, ...]:
    """Return each rank's slice of the `first` values of a vector that is split evenly.

    For example, three ranks split ten values into (0, 4), (4, 8) and (8, 10); of the first six they
    have (0, 4), (4, 6) and none.
    """
    size = math.ceil(length / ranks)
    ends = [min(rank * size, first) for rank in range(ranks + 1)]
    return tuple(slice(start, end) for start, end in itertools.pairwise(ends))


@dataclass(frozen=True)
class Vector:
    """A tensor that every rank has, or a vector of which each rank has a slice."""

    held: Tensor
    """What this rank has of it."""
    places: tuple[slice, ...] = ()
    """The slice of each rank; (): every rank has all of it."""

    @property
    def shape(self) -> torch.Size:
        """The shape of the whole."""
        return torch.Size([self.places[-1].stop]) if self.places else self.held.shape

    @property
    def nbytes(self) -> int:
        """The bytes of the whole."""
        return self.shape.numel() * self.held.element_size()

    def collect(self, whole: Tensor | None, ranks: Ranks) -> None:
        """Copy the whole to a tensor of rank 0; all ranks take part.

        whole: on rank 0, in any memory; a copy to pinned memory may still be under way.
        """
        if not self.places:
            if whole is not None:
                whole.copy_(self.held, non_blocking=True)
            return
        for rank, place, own in self._parts():
            part = self.held[own] if ranks.rank == rank else None
            if ranks.is_first and rank:
                part = self.held.new_empty(place.stop - place.start)
                dist.recv(part, src=rank)
            elif rank and part is not None:
                dist.send(part, dst=0)
            if whole is not None and part is not None:
                whole[place].copy_(part, non_blocking=True)

    def distribute(self, whole: Tensor | None, ranks: Ranks) -> None:
        """Copy rank 0's `whole` to what the ranks hold; all ranks take part."""
        if not self.places:
            if whole is not None:
                self.held.copy_(whole)
            ranks.broadcast_(self.held)
            return
        for rank, place, own in self._parts():
            if whole is not None:
                part = whole[place].to(self.held.device)
                if rank:
                    dist.send(part, dst=rank)
                else:
                    self.held[own].copy_(part)
            elif ranks.rank == rank:
                dist.recv(self.held[own], src=0)

    def _parts(self) -> Iterator[tuple[int, slice, slice]]:
        """Yield parts to send: the rank that has one, and its slice of the whole and of `held`."""
        for rank, place in enumerate(self.places):
            for start in range(place.start, place.stop, _SENT_AT_ONCE):
                end = min(start + _SENT_AT_ONCE, place.stop)
                yield rank, slice(start, end), slice(start - place.start, end - place.start)


_groups: list[RankStore] = []  # one, once the ranks have met


def _is_of_the_group(error: Exception) -> bool:
    """Tell whether an operation between ranks has failed, by torch's message.

    One for which this rank has no memory is its own failure.
    """
    if any(words in str(error) for words in ("out of memory", "CUDA calloc")):
        return False
    return isinstance(error, dist.DistError) or any(
        name in str(error) for name in ("gloo", "Connection", "NCCL")
    )
