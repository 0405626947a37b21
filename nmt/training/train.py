"""The road of a training run: open, loop, do what is due, finish.

For each update: take its batches from the stream. Run forward, loss and backward over this rank's
micro-batches, sum the gradient over ranks, and step Adam once (`TrainStep.run` in update.py).
Then see to what went wrong, and log, validate and save if that is due. A run that is stopped and
resumed gives the same result as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import NoReturn

from nmt.config.recipes import Recipe
from nmt.errors import Stopped
from nmt.models.device import memory_errors
from nmt.runs.report import Report
from nmt.runs.run_folder import RunFolder
from nmt.system import program
from nmt.system.distributed import Ranks
from nmt.training.choose_recipe import TrainCommand
from nmt.training.failures import end_with, finish_saving, ignoring_signals_after_failure
from nmt.training.run_metrics import checksum_of_all
from nmt.training.saving import DiskBudget
from nmt.training.setup import open_run
from nmt.training.stop_request import StopRequest
from nmt.training.trainer import Trainer


@memory_errors()
def train(recipe: Recipe, command: TrainCommand, *, deadline: float = math.inf) -> None:
    """Train a model until one of `stopping_criteria.ends`, or resume a run that was stopped.

    recipe: all values.
    command: the folders, and what else the user gave.
    deadline: the time, as of `time.monotonic`, at which the run stops.
    UsageError if the recipe does not fit the data, the machine or the run folder. Stopped if asked
    to stop, with everything saved. NMTError if training diverges, memory is too small for a single
    pair, or another process of the run has failed.
    """
    ranks, run = Ranks.from_environment(command.reason), RunFolder(command.out)
    stop = StopRequest(deadline)
    trainer: Trainer | None = None
    ranks.join(lambda reason: finish_saving(reason, trainer))
    try:
        opened = open_run(recipe, command, run, ranks)
        config = opened.recipe.training
        with program.handling_signals(stop.note), ignoring_signals_after_failure(ranks):
            # Finding the size of micro-batches may take minutes, to compile; so may links.
            takes_long = config.compiles or config.guided_alignment
            with stop.at_once() if takes_long else contextlib.nullcontext():
                trainer = Trainer(opened, stop)
                trainer.resume_or_begin()
            # Only now, so that you can correct a recipe that does not fit the data in this folder.
            with ranks.raise_on_all_ranks():
                if ranks.is_first:
                    DiskBudget.of(trainer.optimizer, trainer.card).check(run)
                    made_of = opened.recipe, opened.data, opened.initial
                    run.write_config(*made_of, ranks=ranks.world_size, command=str(command))
            _loop(trainer)
    except (KeyboardInterrupt, Exception) as error:
        reported = end_with(error, stop.reason, ranks, trainer)
        if reported is error:
            raise
        raise reported from error
    finally:
        run.unlock()
    ranks.leave()


def _loop(trainer: Trainer) -> None:
    """Train until one of `stopping_criteria.ends`, and validate the last update."""
    state, last = trainer.state, trainer.last_update
    was_finished = trainer.is_finished and state.validated == state.update
    with Report(trainer.run, trainer.config, state.update, last) as report:
        _begin(trainer, report, was_finished=was_finished)
        _do_what_is_due(trainer, report)  # what a stop cut short
        while not trainer.is_finished:
            update, number = trainer.next_update(), trainer.state.update + 1
            save = trainer.saver.is_due(number)
            # Forward, loss and backward of each micro-batch, the sum over ranks, Adam's step.
            result = trainer.train_step.run(update, number, save=save)
            trainer.advance(update, result)
            results = trainer.read_results(wait=_is_something_due(trainer))
            if results and results[-1].outcome.stop:
                _stop(trainer, report)
            if not trainer.recover(results):
                report.advance()
            save = any(result.outcome.save for result in results)
            _do_what_is_due(trainer, report, save=save)
        _finish(trainer, report, was_finished=was_finished)


# --- the start


def _begin(trainer: Trainer, report: Report, *, was_finished: bool) -> None:
    run, state, ranks = trainer.run, trainer.state, trainer.ranks
    trainer.measure_machine()
    with ranks.raise_on_all_ranks():
        if ranks.is_first:
            run.cut_metrics(state.update, state.validated)
            run.write_status("running", state.update)
    if ranks.is_first:
        report.started(state, "" if was_finished else trainer.describe())
        if not trainer.is_finished:  # a finished run leaves its metrics as they are
            run.record(trainer.start_record())
            run.log(f"matrix products at {trainer.machine_rate / 1e9:,.0f} GFLOP/s", aloud=False)
            for warning in trainer.warnings():
                run.warn(warning)
            for remark in trainer.remarks:
                run.log(remark)
    if trainer.saver.saved is None:  # from which a run that is killed early begins again
        trainer.save(whole=True)
    trainer.begin_window()  # whose time begins now


# --- what is due


def _is_something_due(trainer: Trainer) -> bool:
    """Whether something is to be done after the present update that needs its result."""
    config, update = trainer.config, trainer.state.update
    is_due = any(update % every == 0 for every in (config.validate_every, config.save_every))
    return trainer.is_finished or is_due or trainer.is_logged


def _do_what_is_due(trainer: Trainer, report: Report, *, save: bool = False) -> None:
    """Log, validate and save what the present update calls for; `save`: a rank asks to save."""
    config, update, is_last = trainer.config, trainer.state.update, trainer.is_finished
    if update and (trainer.is_logged or is_last):
        _log(trainer, report)
    best = False
    is_due = update > 0 and (update % config.validate_every == 0 or is_last)
    if is_due and trainer.state.validated != update:
        with trainer.window.paused():
            is_complete = _validate(trainer, report)
        if not is_complete:
            _stop(trainer, report)
        best = update in trainer.state.best_updates
    # At the end the model is written before the state, so that a run that is killed in between
    # makes the model again, with its metrics. Validation may have ended it just now.
    save = save and not trainer.is_finished
    is_new = trainer.saver.saved != trainer.state
    checkpoint = update > 0 and update % config.save_every == 0 and is_new
    if best or checkpoint or save:
        with trainer.window.paused():
            trainer.save(best=best, checkpoint=checkpoint, whole=save)


def _log(trainer: Trainer, report: Report) -> None:
    """Report the metrics of the window, and begin another one."""
    if not trainer.window.has_metrics():
        return
    ranks, update = trainer.ranks, trainer.state.update
    metrics = trainer.window.metrics(ranks, trainer.flops, trainer.machine_rate)
    trainer.count_seconds(metrics["seconds"])
    record: dict[str, object] = {"kind": "train", "update": update, **metrics}
    record |= {
        "learning_rate": trainer.optimizer.learning_rate(update),
        "seconds": trainer.state.seconds,
        "checksum": checksum_of_all(trainer.optimizer.weights.master, ranks),
    }
    if ranks.is_first:
        report.trained(trainer.state, record)
    trainer.begin_window()


def _validate(trainer: Trainer, report: Report) -> bool:
    """Validate the weights; return False if asked to stop before the end."""
    started = time.monotonic()
    result = trainer.validate()
    if result is not None and trainer.ranks.is_first:
        report.validated(trainer.state, result, time.monotonic() - started)
        report.ends_at(trainer.last_update)
        if doubt := trainer.doubt():
            trainer.run.warn(doubt)
    return result is not None


# --- the end


def _stop(trainer: Trainer, report: Report) -> NoReturn:
    reason = trainer.ranks.agree_to_stop(trainer.stop.reason)
    _log(trainer, report)
    trainer.save_at_the_end()
    run, update = trainer.run, trainer.state.update
    if trainer.ranks.is_first:
        with run.best_effort(run.path / "status.json"):
            run.write_status("stopped", update, reason)
    raise Stopped(
        f"stopped at update {update:,} ({reason}), everything saved; run the same command again to "
        "resume"
    )


def _finish(trainer: Trainer, report: Report, *, was_finished: bool) -> None:
    _log(trainer, report)
    trainer.save_at_the_end()
    reasons = trainer.ends
    if trainer.ranks.is_first:
        reason = next(iter(reasons))
        noted = "; ".join(filter(None, (reason, trainer.doubt())))
        trainer.run.write_status("finished", trainer.state.update, noted)
        longer = " ".join(reasons.values()) if was_finished else ""
        report.finished(trainer.state, reason, longer=longer)
