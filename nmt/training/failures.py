"""How a run ends that cannot end in an orderly way: what the other processes and the user hear.

torchrun's agent, which `nmt train` uses too, ends the processes that are left when one has failed:
it sends SIGTERM, and SIGKILL after 30 seconds. Ranks that wait for one in vain end as
`nmt.system.distributed` says. Here is only what they do not do: a rank that fails tells the others
why, what was given to be saved is written, and status.json says what has happened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nmt.errors import NMTError, Stopped
from nmt.models.kernels.compiler import CompilerError
from nmt.runs.checkpoint import STATE, updates_of
from nmt.system import program
from nmt.system.distributed import Ranks
from nmt.training.stop_request import StopRequest
from nmt.training.trainer import Trainer


@contextlib.contextmanager
def ignoring_signals_after_failure(ranks: Ranks) -> Iterator[None]:
    """Let a failing rank find out what to say, and save, before the agent's SIGTERM ends it."""
    try:
        yield
    except Exception as error:
        if ranks.in_group and not isinstance(error, Stopped):
            program.ignore_signals()
        raise


def end_with(
    error: BaseException, asked: str, ranks: Ranks, trainer: Trainer | None
) -> BaseException:
    """Wait for what is being saved, tell the others and status.json why the run ends.

    error: what has been raised.
    asked: by which signal this rank was asked to stop, if any.
    ranks: all processes.
    trainer: None if there is none yet; then the run folder stays as it was.
    Returns the error to raise: this one, or what another rank has ended with, if that is the cause.
    """
    if isinstance(error, Stopped):  # all ranks together
        ranks.leave()
        return error
    if ranks.in_group:
        program.ignore_signals()
    by_signal = asked or "by a signal"
    with program.handling_signals(StopRequest().note):  # or the next signal would interrupt this
        cause = ranks.cause_elsewhere(error)
        if cause is None and isinstance(error, KeyboardInterrupt):
            ranks.leave_word("stopped", by_signal)
        elif cause is None:
            kind = "" if isinstance(error, NMTError) else f"{type(error).__name__}: "
            ranks.leave_word("failed", f"{kind}{error}")
        ranks.stop_watching()  # only now: the others may be gone, but what asks the store may hang
        reason = by_signal if isinstance(error, KeyboardInterrupt) else str(cause or error)
        is_stop = isinstance(cause or error, KeyboardInterrupt | Stopped)
        finish_saving(reason, trainer, is_stop=is_stop)
    is_of_all = isinstance(error, NMTError) and not isinstance(error, CompilerError)
    if cause is None and is_of_all:
        ranks.leave()  # all ranks raise it together; after any other error, nobody may wait
    return cause or error


def finish_saving(reason: str, trainer: Trainer | None, *, is_stop: bool = False) -> None:
    """Wait for what is being saved, and write to status.json why the run ends."""
    if trainer is None:
        return
    trainer.saver.wait()
    run, update, status = trainer.run, trainer.state.update, "failed"
    if is_stop:
        saved = max(updates_of(run, STATE), default=0)
        lost = ": updates after the last save are lost" if update > saved else ""
        status, reason, update = "stopped", f"interrupted ({reason}){lost}", saved
    if trainer.ranks.is_first and run.path.is_dir():
        with contextlib.suppress(OSError):  # the failure may be a full disk
            run.write_status(status, update, reason)
