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
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from nmt.errors import DataError, NMTError, Stopped, UsageError

AGAIN = "run the same command again to go on from the last save"
OVER = "over"
"""The last sign of life of a process that ends in an orderly way."""
# Keys of torchrun's store.
_EXIT_REASON = "exit reason"  # of the first rank that leaves
_BEAT = "beat/"  # signs of life, by rank
_ASKED = "nmt was asked to stop"

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
            if lasting.check([_ASKED]):
                raise Stopped(
                    f"torchrun has started this run again, but it was asked to stop "
                    f"({lasting.get(_ASKED).decode()}); run the same command again to resume"
                )
            # Or what was written before a restart (--max-restarts) would be read again.
            start = f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')} with {size}"
            store = PrefixStore(start, lasting)
            store.set(f"{_BEAT}{rank}", "")
            dist.init_process_group(f"cpu:gloo{gpu}", store=store, rank=rank, world_size=size)
            ranks = RankStore(lasting, store, rank, size)
            _store[:] = [ranks]
            # Without torchrun, processes of one machine may not see each other, as in containers.
            processes = self.gather([os.environ.get("GROUP_RANK", f"of {rank}"), os.getpid()])
            ranks.machines = [machine for machine, _ in processes]
            ranks.siblings = {
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
        for store in _store:
            with contextlib.suppress(dist.DistError):
                store.ask_to_stop(reason)
        return reason

    def publish_stop(self, reason: str) -> None:
        """Tell the other ranks, if possible, that this one stops without waiting for them."""
        for store in _store:
            with contextlib.suppress(dist.DistError):
                store.publish_stop(reason)

    def exit_reason(self) -> RankLost | RankStopped | None:
        """Return what has become of another rank: torchrun may have stopped this one for it."""
        for store in _store:
            with contextlib.suppress(dist.DistError):
                store.beats()
                return store.exit_reason()
        return None

    def cause_elsewhere(self, error: Exception) -> RankLost | RankStopped | None:
        """Return which rank was lost, if that caused an error; else None.

        A rank that fails for its own reason publishes it in the store. The others read it. If
        there is none, they report themselves there, so that a silent rank can be named.
        """
        if self.world_size == 1:
            return None
        (store,) = _store
        if not _is_of_the_group(error):
            kind = "" if isinstance(error, NMTError) else f"{type(error).__name__}: "
            with contextlib.suppress(dist.DistError):
                store.publish_lost([self.rank], f"rank {self.rank} failed: {kind}{error}")
            return None
        try:
            return store.find_lost(error)
        except dist.DistError:  # the machine with torchrun's store is gone, and that of rank 0
            return RankLost(f"the ranks have lost touch, and torchrun is gone: {error}", [0])


class RankStopped(Stopped):
    """Another process of the run has been stopped at once."""


class RankLost(NMTError):
    """Another process of the run has failed."""

    def __init__(self, what: str, ranks: list[int]) -> None:
        """Say what has become of which ranks."""
        self.what = what
        self.ranks = ranks
        super().__init__(f"{what}; {AGAIN}")


@dataclass
class RankStore:
    """What the ranks leave for each other in torchrun's store: signs of life, and why they end.

    The store outlives the processes if torchrun starts them again.
    """

    lasting: Any
    """torchrun's store, where all starts of one launch meet."""
    store: Any
    """The part of it that is of this start."""
    rank: int
    world_size: int
    machines: list[str] = field(default_factory=list)
    """Of each rank, which torchrun has started it."""
    siblings: dict[int, int] = field(default_factory=dict)
    """The other ranks of the same torchrun, and their processes."""
    operations: int = 0
    """How many operations between ranks this one has begun."""

    def beats(self) -> list[str]:
        """Return each rank's last sign of life; publish siblings that are gone."""
        # Whoever ends in an orderly way says so before its process ends.
        ended = [rank for rank, process in self.siblings.items() if not _exists(process)]
        keys = [f"{_BEAT}{rank}" for rank in range(self.world_size)]
        beats = [beat.decode() for beat in self.store.multi_get(keys)]
        for rank in ended:
            if beats[rank] != OVER:
                self.publish_lost([rank], _gone([rank]))
        return beats

    def ask_to_stop(self, reason: str) -> None:
        """Let all later starts of this launch end at once."""
        self.lasting.set(_ASKED, reason)

    def publish_stop(self, reason: str) -> None:
        """Tell the others, also those of later starts, that this rank is stopped."""
        self.ask_to_stop(reason)
        self._publish_exit_reason([self.rank], "stopped", reason)

    def publish_lost(self, ranks: list[int], reason: str) -> None:
        """Tell the others that ranks are lost."""
        self._publish_exit_reason(ranks, "lost", reason)

    def _publish_exit_reason(self, *reason: object) -> None:
        self.store.compare_set(_EXIT_REASON, "", json.dumps(reason))  # the first one stands

    def exit_reason(self) -> RankLost | RankStopped | None:
        """Return what has become of another rank, if that is published."""
        if not self.store.check([_EXIT_REASON]):
            return None
        ranks, status, reason = json.loads(self.store.get(_EXIT_REASON).decode())
        if status == "stopped":
            return RankStopped(f"rank {ranks[0]} was stopped ({reason}); {AGAIN}")
        return RankLost(reason, ranks)

    def find_lost(self, error: Exception) -> RankLost | RankStopped | None:
        """Find out which rank was lost, after an error of an operation between ranks."""
        self.store.set(f"left/{self.rank}", "")
        before = self.beats()
        with contextlib.suppress(dist.DistStoreError):
            self.store.wait([_EXIT_REASON], timedelta(seconds=2))
            return self.exit_reason()
        silent: list[int] = []
        for rank in range(self.world_size):
            try:
                self.store.wait([f"left/{rank}"], timedelta(seconds=1))
            except dist.DistStoreError:
                silent.append(rank)
        # One whose main thread is stuck, as in an operation of NCCL, still shows signs of life.
        after = self.beats()
        silent = [rank for rank in silent if after[rank] == before[rank]]
        if silent:
            return RankLost(_gone(silent), silent)
        return RankLost(f"the ranks have lost touch: {error}", [])


_store: list[RankStore] = []  # one, once the ranks have met


class Heartbeat:
    """Signs of life of this process, for a thread that goes on while the main thread is stuck.

    It has a connection to the store of its own: one that waits for a key holds up its connection.
    """

    def __init__(self) -> None:
        """Connect; the ranks must have met."""
        (self.of_main,) = _store
        """What the main thread knows of the ranks, and does with them."""
        self._count = 0
        self._connect()

    def _connect(self) -> None:
        lasting, store = self.of_main.lasting.clone(), self.of_main.store.clone()
        self._own = dataclasses.replace(self.of_main, lasting=lasting, store=store)

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
            self._show(f"{self._count} {self.of_main.operations}")
            return self._own.beats(), self._own.exit_reason()
        except dist.DistStoreError:
            self._connect()
            return None

    def publish_exit_reason(self, status: str, reason: str, lost: list[int]) -> None:
        """Tell the others why this rank ends: stopped, or failed as others are lost."""
        with contextlib.suppress(RuntimeError):
            if status == "stopped":
                self._own.publish_stop(reason)
            else:
                self._own.publish_lost(lost, reason)

    def end(self) -> None:
        """Tell the others that this process may be silent from now on."""
        with contextlib.suppress(RuntimeError):
            self._show(OVER)

    def _show(self, beat: str) -> None:
        self._own.store.set(f"{_BEAT}{self._own.rank}", beat)


def _exists(process: int) -> bool:
    """Tell whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _gone(ranks: list[int]) -> str:
    return f"rank {', '.join(map(str, ranks))} is gone without a word"


def _count_an_operation() -> None:
    for store in _store:
        store.operations += 1


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


def _is_of_the_group(error: Exception) -> bool:
    """Tell whether an operation between ranks has failed, by torch's message.

    One for which this rank has no memory is its own failure.
    """
    if any(words in str(error) for words in ("out of memory", "CUDA calloc")):
        return False
    return isinstance(error, dist.DistError) or any(
        name in str(error) for name in ("gloo", "Connection", "NCCL")
    )
