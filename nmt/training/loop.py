"""The training loop.

For each update: take its batches from the stream. Run forward, loss and backward over this rank's
micro-batches, sum the gradient over ranks, and step Adam once (`UpdateRunner.run` in update.py).
Then see to what went wrong, and log, validate and save if that is due. A run that is stopped and
resumed gives the same result as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import NoReturn

import torch

from nmt.config import TrainingConfig
from nmt.errors import Stopped
from nmt.runs.checkpoint import RunState
from nmt.runs.report import Report
from nmt.training.course import ends, has_forgotten, warnings_before
from nmt.training.meter import MetricsWindow, checksum_of_all, device_name, rate_of_ranks
from nmt.training.recovery import go_back, recover
from nmt.training.trainer import Trainer

_EARLY = 1, 10, 25, 50  # updates that are logged, too


def train(trainer: Trainer) -> None:
    """Train until max_updates or the end of patience, and validate the last update.

    Raises:
        Stopped: if asked to stop, with everything saved.
        NMTError: if training diverges for good, or memory is too small for a single pair.
    """
    was_finished = trainer.is_finished and trainer.state.validated == trainer.state.update
    trainer.report = Report(trainer.run, trainer.config, trainer.state.update)
    with trainer.report:
        _begin(trainer, was_finished=was_finished)
        _do_what_is_due(trainer, trainer.state)  # what a stop cut short, before the resume
        while not trainer.is_finished:
            before = trainer.state
            update = trainer.window.take(trainer.updates)  # the next one, once a thread has made it
            number = before.update + 1
            save = trainer.saver.is_due(number)
            # Forward, loss and backward of each micro-batch, the sum over ranks, Adam's step.
            result = trainer.runner.run(update, number, save=save)
            trainer.advance(update, result)
            results = trainer.read_results(wait=_is_something_due(trainer, before))
            if results and results[-1].stop:
                _stop(trainer)
            if not recover(trainer, results):
                trainer.report.advance()
            _do_what_is_due(trainer, before, save=any(result.save for result in results))
        _finish(trainer, was_finished=was_finished)


# --- the start


def _begin(trainer: Trainer, *, was_finished: bool) -> None:
    config, run, state, ranks = trainer.config, trainer.run, trainer.state, trainer.ranks
    trainer.machine_rate, warning = rate_of_ranks(config.precision, trainer.device, ranks)
    if warning and ranks.is_first:
        run.warn(warning)
    trainer.saver.prepare()
    with ranks.raise_on_all_ranks():
        if ranks.is_first:
            run.cut_metrics(state.update, state.validated)
            run.write_status("running", state.update)
    if ranks.is_first:
        pairs, an_epoch = len(trainer.data.train), trainer.updates_an_epoch()
        about = (
            f"{trainer.recipe.preset}, {trainer.weights.count:,} parameters, "
            f"{_describe_choices(trainer)}; {pairs:,} pairs, about {an_epoch:,} updates an epoch; "
            f"matrix products at {trainer.machine_rate / 1e9:,.0f} GFLOP/s"
        )
        trainer.report.started(state, "" if was_finished else about)
        if not trainer.is_finished:  # a finished run leaves its metrics as they are
            run.record(_start_record(trainer))
            for warning in warnings_before(config, an_epoch) + trainer.validator.doubts():
                run.warn(warning)
            for remark in trainer.remarks:
                run.log(remark)
            if trainer.recipe.stages:
                run.log(trainer.stages.describe(state.position.stage))
    if trainer.saver.saved is None:  # a run that diverges early goes back to the beginning
        trainer.save(whole=True)
    trainer.window = MetricsWindow.empty(trainer.device)  # whose time begins now


def _describe_choices(trainer: Trainer) -> str:
    """Name all that was chosen for this machine and decides a run's bits."""
    config, device = trainer.config, trainer.device.type
    choices = [
        f"{config.precision} on {device}",
        f"{trainer.ranks.world_size} x {config.threads} threads",
        f"micro-batches of {trainer.state.micro_batch_tokens:,} tokens",
    ]
    if device == "cpu" and config.precision == "fp32":
        choices.append(f"products by {config.matmul}")
    return ", ".join(choices + ["compiled"] * config.compiles)


def _start_record(trainer: Trainer) -> dict[str, object]:
    """Return the facts and choices of this machine that decide a run's bits."""
    return {
        "kind": "start",
        "update": trainer.state.update,
        "device": device_name(trainer.device),
        "matmul": trainer.config.matmul,
        "compile": trainer.config.compile,
        "ranks": trainer.ranks.world_size,
        "threads": trainer.config.threads,
        "micro_batch_tokens": trainer.state.micro_batch_tokens,
        "torch": torch.__version__,
        "matrix_product_flops_per_second": trainer.machine_rate,
    }


# --- what is due


def _is_something_due(trainer: Trainer, before: RunState) -> bool:
    """Whether something is to be done after the present update that needs its result."""
    config, state = trainer.config, trainer.state
    cadences = config.validate_every, config.save_every
    begins_stage = state.position.stage > before.position.stage
    is_due = _is_logged(state.update, config) or any(
        state.update % every == 0 for every in cadences
    )
    return begins_stage or trainer.is_finished or is_due


def _is_logged(update: int, config: TrainingConfig) -> bool:
    """Whether this update is logged: every so many, and some early ones if those come seldom."""
    return update % config.log_every == 0 or (update in _EARLY and config.log_every > _EARLY[-1])


def _do_what_is_due(trainer: Trainer, before: RunState, *, save: bool = False) -> None:
    """Log, validate and save what the present update calls for.

    Args:
        trainer: the run.
        before: the state before this update.
        save: the training state is due.
    """
    stage, update = trainer.state.position.stage, trainer.state.update
    config, is_last = trainer.config, trainer.is_finished
    if stage > before.position.stage and trainer.ranks.is_first:
        trainer.report.stage_began(trainer.state, trainer.stages.describe(stage))
    if update and (_is_logged(update, config) or is_last):
        _log(trainer)
    best = False
    is_due = update > 0 and (update % config.validate_every == 0 or is_last)
    # Forgetting counts from the first weights, so they are validated, too.
    is_start = update == 0 and config.valid_old != trainer.state.old_text
    if is_start or (is_due and trainer.state.validated != update):
        with trainer.window.paused():
            is_complete = _validate(trainer)
        if not is_complete:
            _stop(trainer)
        best = update in trainer.state.best_updates
    # At the end the model is written before the state, so that a run that is killed in between
    # makes the model again, with its metrics. Validation may have ended it just now.
    save = (save or update == config.decay_begins > 0) and not trainer.is_finished
    is_new = trainer.saver.saved != trainer.state
    checkpoint = update > 0 and update % config.save_every == 0 and is_new
    if best or checkpoint or save:
        with trainer.window.paused():
            trainer.save(best=best, checkpoint=checkpoint, whole=save or is_start)


def _log(trainer: Trainer) -> None:
    """Report the metrics of the window, and begin another one."""
    if not trainer.window.has_metrics():
        return
    ranks, update = trainer.ranks, trainer.state.update
    metrics = trainer.window.metrics(ranks, trainer.flops, trainer.machine_rate)
    seconds = trainer.state.seconds + metrics["seconds"]
    trainer.state = dataclasses.replace(trainer.state, seconds=seconds)
    record: dict[str, object] = {"kind": "train", "update": update, **metrics}
    record |= {
        "learning_rate": trainer.optimizer.learning_rate(update),
        "seconds": seconds,
        "checksum": checksum_of_all(trainer.optimizer.vectors()["weights"], ranks),
    }
    if ranks.is_first:
        trainer.report.trained(trainer.state, record)
    trainer.window = MetricsWindow.empty(trainer.device)


def _validate(trainer: Trainer) -> bool:
    """Validate the weights; if their loss is no number, go back to a checkpoint.

    Returns:
        False if asked to stop before the end; a resumed run validates again.
    """
    trainer.state = state = trainer.saver.confirmed(trainer.state)
    started = time.monotonic()
    with (
        trainer.weights.replaced_by(trainer.optimizer.eval_weights),
        trainer.runner.eager(),
        trainer.report.validating(trainer.validator.work) as on_progress,
    ):
        result = trainer.validator.measure(trainer.model, trainer.stop, on_progress)
    if result is None:
        return False
    if not math.isfinite(result.loss):
        go_back(trainer, f"valid loss {result.loss} at update {state.update:,}")
        return True
    trainer.valid = result.metrics()
    config = trainer.config
    state = state.measured_old(config.valid_old, result.old_score)
    if has_forgotten(config, state):  # so these weights are not the best
        state = dataclasses.replace(state, validated=state.update)
    else:
        state = state.validated_as(
            result.best_by(config.best_metric),
            result.loss,
            keep_best=config.keep_best,
            is_extra=state.update % config.validate_every > 0,
        )
    if trainer.ranks.is_first:
        trainer.report.validated(state, result, time.monotonic() - started)
    trainer.state = state
    return True


# --- the end


def _stop(trainer: Trainer) -> NoReturn:
    reason = trainer.ranks.agree_to_stop(trainer.stop.reason)
    _log(trainer)
    trainer.save_at_the_end()
    run, update = trainer.run, trainer.state.update
    if trainer.ranks.is_first:
        with run.best_effort(run.path / "status.json"):
            run.write_status("stopped", update, reason)
    raise Stopped(
        f"stopped at update {update:,} ({reason}), everything saved; run the same command again to "
        "resume"
    )


def _finish(trainer: Trainer, *, was_finished: bool) -> None:
    _log(trainer)
    trainer.save_at_the_end()
    reasons = ends(trainer.config, trainer.state)
    if trainer.ranks.is_first:
        trainer.run.write_status("finished", trainer.state.update, reasons[0].reason)
        longer = " ".join(end.longer for end in reasons) if was_finished else ""
        trainer.report.finished(trainer.state, reasons[0].reason, longer=longer)
