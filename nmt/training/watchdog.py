"""A watchdog of each process of several: it ends one that waits for another in vain.

The main thread may be stuck in an operation between ranks, because another process is stopped
(SIGSTOP) or dead, or its machine is gone. It then answers no signal, since Python handles signals
in the main thread, and NCCL raises no error there. So each process has two threads. One shows the
others by the store that this process lives, and hears the same of them. The other one wakes up by
the descriptor that Python writes signals to. It compares both with what the main thread does:

- A rank has published that it failed, or its process is gone, and the main thread does not move:
  say so, and end with 1, also if torchrun has sent SIGTERM since.
- A rank shows no sign of life, and the main thread does not move: end with 1 after `_SILENT`
  seconds. If the run was asked to stop, end after a few: with 75, or with 1 if no rank of a machine
  is heard, because torchrun also ends the others when a machine is lost.
- The run was asked to stop, and a rank that lives is too busy to answer: write in good time what
  will be true after torchrun kills the processes, and go on.

A process that is merely slow is never ended: signs of life do not come from the main thread. If the
store is gone, nothing is known of the others, and the time limits of gloo and NCCL remain.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from nmt import console
from nmt.distributed import AGAIN, OVER, Heartbeat, RankLost, Ranks, RankStopped
from nmt.errors import EXIT_FAILED, EXIT_STOPPED
from nmt.program import SIGNALS
from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.run_folder import RunFolder
from nmt.training.stop import StopRequest
from nmt.training.trainer import Trainer

_BEAT = 2.0  # seconds between two signs of life
_SILENT = 120.0  # seconds: a machine may be busy, and a call of Python may hold up all threads
_SILENT_IF_ASKED = 10.0
_STUCK = 5.0  # seconds in which the main thread, or this process, may hear that a rank is lost
_LAST_MOMENT = 10.0  # seconds before torchrun kills a process


class ExitReport:
    """Writes to the run folder how a run has ended that could not end in an orderly way."""

    def __init__(self, run: RunFolder, ranks: Ranks) -> None:
        self.training = False
        """Whether the run has begun; else the folder stays as it was."""
        self.trainer: Trainer | None = None
        self._run = run
        self._ranks = ranks

    def wait(self) -> None:
        """Wait until what was given to be saved is written."""
        if self.trainer is not None:
            self.trainer.saver.wait()

    def finish(self) -> None:
        """Wait for files that are being written; then this process writes no more."""
        if self.trainer is not None:
            self.trainer.saver.finish_writing()

    def write(self, status: str, reason: str, lost: Sequence[int] = ()) -> None:
        """Write how the run has ended, as the first rank or if that is among the lost ones."""
        if not self.training or not (self._ranks.is_first or 0 in lost):
            return
        saved = max(updates_of(self._run, STATE), default=0)
        update = self.trainer.state.update if self.trainer else saved
        if status == "stopped":
            reason = f"interrupted ({reason})"
            reason += ": updates after the last save are lost" if update > saved else ""
            update = saved
        if self._run.path.is_dir():
            with contextlib.suppress(OSError):  # the failure may be a full disk
                self._run.write_status(status, update, reason)

    def write_early(self, reason: str) -> bool:
        """Write how the run will have ended if it is killed; False: it ends in an orderly way."""
        if self.trainer is None:
            self.write("stopped", reason)
            return True
        with self.trainer.saver.end:
            if not self.trainer.saver.is_at_the_end:
                self.write("stopped", reason)
            return not self.trainer.saver.is_at_the_end


@dataclass
class Observations:
    """What a watchdog has seen so far; times in seconds."""

    machines: Sequence[str]
    """Of each rank."""
    silent: dict[int, float] = field(default_factory=dict)
    """Since the other ranks last showed signs of life, except those that ended."""
    stuck: float = 0.0
    """Since the main thread last moved."""
    store_silent: float = 0.0
    """Since the store last answered."""
    asked: float | None = None
    """Since the run was asked to stop."""
    reason: str = ""
    """Why it was."""
    lost: RankLost | RankStopped | None = None
    """What another rank has published."""
    _moves: tuple[int, ...] = ()
    _rounds: int = 0
    _since_round: float = 0.0
    _beats: list[str] = field(default_factory=list)
    _busy: dict[int, float] = field(default_factory=dict)
    """Since each rank began an operation."""

    @classmethod
    def of(cls, own_rank: int, machines: Sequence[str]) -> Self:
        """Begin to observe the other ranks."""
        return cls(machines, {rank: 0.0 for rank in range(len(machines)) if rank != own_rank})

    def note_request(self, reason: str) -> None:
        """Take note of a request to stop."""
        if self.asked is None:
            self.asked, self.reason = 0.0, reason

    def add(self, seconds: float, *, moves: tuple[int, ...], rounds: int, beats: list[str]) -> None:
        """Take note of what has changed in so many seconds, and what has not.

        Args:
            seconds: of which the process was not suspended.
            moves: what grows while the main thread moves.
            rounds: how often the others were heard.
            beats: their last signs of life.
        """
        self.stuck = 0.0 if moves != self._moves else self.stuck + seconds
        self._moves = moves
        if self.asked is not None:
            self.asked += seconds
        self.store_silent += seconds
        self._since_round += seconds
        if rounds == self._rounds:
            return
        # Nothing could be heard while the store hung.
        heard = min(self._since_round, 2 * _BEAT)
        for rank, beat in enumerate(beats):
            before = self._beats[rank] if self._beats else ""
            if rank in self.silent:
                lives = beat == OVER or beat != before
                self.silent[rank] = 0.0 if lives else self.silent[rank] + heard
            has_begun = beat.split()[-1:] != before.split()[-1:]
            self._busy[rank] = 0.0 if has_begun else self._busy.get(rank, 0.0) + heard
        self._rounds, self._beats = rounds, beats
        self.store_silent = self._since_round = 0.0

    def describe_busiest(self) -> str:
        """Say which rank the others wait for."""
        began = {
            rank: int(beat.split()[-1])
            for rank, beat in enumerate(self._beats)
            if beat not in (OVER, "")
        }
        behind = [rank for rank, count in began.items() if count == min(began.values())]
        if len(behind) == len(began):
            return "the ranks are busy"
        names = ", ".join(map(str, behind))
        seconds = max(self._busy[rank] for rank in behind)
        return f"rank {names} has been busy for {seconds:.0f} seconds, and the others wait for it"


@dataclass(frozen=True)
class Ending:
    """How a process ends whose main thread is stuck."""

    exit_status: int
    line: str
    reason: str  # for status.json
    ranks: list[int]  # that are lost


def ending(seen: Observations) -> Ending | None:
    """Tell whether the process should end now, and how."""
    if seen.lost is not None:
        if seen.stuck < _STUCK:
            return None
        if isinstance(seen.lost, RankStopped):
            return Ending(EXIT_STOPPED, str(seen.lost), str(seen.lost), [])
        return _failed(seen.lost)
    patience = _SILENT if seen.asked is None else _SILENT_IF_ASKED
    if seen.stuck < patience:
        return None
    if seen.asked is not None and seen.asked < _STUCK:
        return None  # torchrun asks all to stop when one has failed, which is not heard at once
    silent = {rank: seconds for rank, seconds in seen.silent.items() if seconds >= patience}
    if silent:
        names, seconds = ", ".join(map(str, silent)), min(silent.values())
        silence = f"rank {names} has been silent for {seconds:.0f} seconds"
        heard = {name for rank, name in enumerate(seen.machines) if rank not in silent}
        # If no rank of a machine is heard, it was lost, and torchrun stops the others for that.
        if seen.asked is not None and heard == set(seen.machines):
            line = f"stopped ({seen.reason}) without saving, because {silence}; {AGAIN}"
            return Ending(EXIT_STOPPED, line, f"{seen.reason}; {silence}", list(silent))
        return _failed(RankLost(silence, list(silent)))
    if seen.asked is not None and seen.store_silent >= max(patience, seen.asked):
        silence = (
            f"torchrun on the first machine has been silent for {seen.store_silent:.0f} seconds"
        )
        return _failed(RankLost(silence, [0]))
    return None


def _failed(lost: RankLost) -> Ending:
    return Ending(EXIT_FAILED, str(lost), lost.what, lost.ranks)


class Watchdog:
    """The two threads of one process, and what they know."""

    def __init__(self, ranks: Ranks, stop: StopRequest, exit_report: ExitReport) -> None:
        """Start to watch; in the main thread, and after the ranks have met."""
        self._ranks = ranks
        self._stop = stop
        self._exit_report = exit_report
        self._heartbeat = Heartbeat()
        self._over = threading.Event()
        self._ending = threading.Lock()  # held while it ends the process
        # What one thread hears, and the other one looks at.
        self._rounds = 0
        self._beats = [""] * ranks.world_size
        self._lost: RankLost | RankStopped | None = None
        # torchrun kills a process so long after it passed on a signal.
        limit = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        self._early = max(limit - _LAST_MOMENT, limit / 2)
        self._signals, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._waked_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._live, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop watching; a process that is being ended does not return from here."""
        with self._ending:
            self._over.set()
        signal.set_wakeup_fd(self._waked_before)
        os.write(self._wake, b"\0")
        for thread in self._threads:
            thread.join(timeout=_STUCK)  # the store may hang
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._wake)
            os.close(self._signals)

    def _live(self) -> None:
        """Show signs of life, and hear those of the others."""
        with contextlib.suppress(RuntimeError):  # the store is gone
            while not self._over.is_set():
                if (heard := self._heartbeat.beat()) is not None:
                    self._beats, self._lost = heard
                    self._rounds += 1
                self._over.wait(_BEAT)
        self._heartbeat.end()

    def _watch(self) -> None:
        """Look at the main thread and at the others, and end the process if need be."""
        seen, has_warned = (
            Observations.of(self._ranks.rank, self._heartbeat.of_main.machines),
            False,
        )
        before = time.monotonic()
        while not self._over.is_set():
            if select.select([self._signals], [], [], _BEAT)[0]:
                for number in os.read(self._signals, 1000):
                    if number in SIGNALS:
                        seen.note_request(signal.Signals(number).name)
            if self._stop.is_due():
                seen.note_request(self._stop.reason)
            now = time.monotonic()
            # If this process was suspended, the others may have been, too.
            seen.add(
                min(now - before, 2 * _BEAT),
                moves=(self._heartbeat.of_main.operations, self._stop.times_asked),
                rounds=self._rounds,
                beats=self._beats,
            )
            before = now
            seen.lost = self._lost
            if end := ending(seen):
                self._end(end)
            if not has_warned and seen.asked is not None and seen.asked >= self._early:
                has_warned = True
                self._warn(seen)

    def _warn(self, seen: Observations) -> None:
        """Write in good time what will be true if the process is killed."""
        busy = seen.describe_busiest()
        if self._ranks.is_first and self._exit_report.write_early(f"{seen.reason}; {busy}"):
            console.warning(
                f"asked to stop ({seen.reason}), but {busy}; if the processes are killed now, "
                "updates after the last save are lost"
            )

    def _end(self, end: Ending) -> None:
        with self._ending:
            if self._over.is_set():  # the main thread has found out by itself
                return
            status = "stopped" if end.exit_status == EXIT_STOPPED else "failed"
            in_full = end.reason if status == "stopped" else end.line
            self._exit_report.write(status, in_full, end.ranks)
            say = console.error if end.ranks else console.warning  # of a rank that was stopped
            say(end.line)
            self._heartbeat.publish_exit_reason(status, end.reason, end.ranks)
            self._exit_report.finish()
            self._exit_report.write(status, in_full, end.ranks)  # with what was saved since
            self._heartbeat.end()
            sys.stderr.flush()
            os._exit(end.exit_status)


@contextlib.contextmanager
def watching(ranks: Ranks, stop: StopRequest, exit_report: ExitReport) -> Iterator[None]:
    """Watch over a block, if there are other processes to wait for."""
    if ranks.world_size == 1:
        yield
        return
    watchdog = Watchdog(ranks, stop, exit_report)
    try:
        yield
    finally:
        watchdog.end()
