"""The training loop.

For each update: take its batches from the stream, run forward and backward over this rank's
micro-batches, sum the gradients over ranks, and step Adam once (`UpdateRunner.run`). Logging,
validation and saving are due every so many updates. A run that is stopped and resumed gives the
same result as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from nmt.config import Recipe, TrainingConfig
from nmt.data.batches import LengthSums
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.stream import Cut, Update, prefetched, updates_from
from nmt.data.subword_dropout import SubwordDropout
from nmt.distributed import Ranks
from nmt.errors import NMTError, Stopped
from nmt.models.flops import training_flops
from nmt.models.model_file import ModelCard
from nmt.runs import checkpoint
from nmt.runs.checkpoint import Progress
from nmt.runs.report import Report, ValidationResult
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training.first_weights import begin_again, card_of, first_weights
from nmt.training.memory import fitting_tokens, longest_pair
from nmt.training.meter import Window, checksum_of_all, device_name, rate_of_ranks
from nmt.training.optimizer import Optimizer
from nmt.training.saving import Saver
from nmt.training.stop import StopRequest
from nmt.training.update import Outcome, UpdateRunner
from nmt.training.validation import Validator

# Waiting updates take little memory, and even out other load on the machine.
_UPDATES_AHEAD = 4
_FACTOR_AFTER_DIVERGING = 0.5  # of the learning rate


def updates_of_run(
    data: DataFolder, config: TrainingConfig, progress: Progress, cut: Cut
) -> Iterator[Update]:
    """Return the next updates of a run, which a thread prepares.

    Raises:
        UsageError: if a single pair exceeds the budget of an update.
    """
    check_budget(config.batch_tokens, longest_pair(data))
    dropouts = None
    if config.subword_dropout:
        src, tgt = (
            SubwordDropout(vocabulary, config.subword_dropout)
            for vocabulary in (data.src_vocabulary, data.tgt_vocabulary)
        )
        dropouts = src, tgt
    updates = updates_from(
        progress.position,
        data.train,
        cut,
        batch_tokens=config.batch_tokens,
        seed=config.seed,
        dropouts=dropouts,
    )
    return prefetched(updates, ahead=_UPDATES_AHEAD)


def updates_an_epoch(data: DataFolder, config: TrainingConfig) -> int:
    """Return about how many updates an epoch has, from its tokens."""
    train = data.info.train
    tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
    visits = Epochs(data.train.shares, seed=config.seed).visits
    return round(tokens / train.pairs * visits / config.batch_tokens) or 1


class Trainer:
    """One process of a training run."""

    def __init__(
        self,
        recipe: Recipe,
        data: DataFolder,
        run: RunFolder,
        initial: InitialModel,
        ranks: Ranks,
        device: torch.device,
        stop: StopRequest,
    ) -> None:
        """Build the model with its initial weights; `restore` loads the run's progress."""
        self.recipe = recipe
        self.config = recipe.training
        self.data = data
        self.run = run
        self.ranks = ranks
        self.device = device
        self.stop = stop
        self.initial = initial
        self.card = card_of(recipe, data)
        # A resumed run loads its weights from its state.
        warm_from = Path(initial.path) if initial.path and not checkpoint.has_state(run) else None
        self.model, self.weights, self.remarks = first_weights(
            self.card, self.config, ranks, device, warm_from=warm_from
        )
        self.optimizer = Optimizer(self.weights, self.config, recipe.model.d_model)
        self.runner = UpdateRunner(self.model, self.optimizer, ranks, self.config, device, stop)
        self.validator = Validator(
            data,
            ranks,
            device,
            label_smoothing=self.config.label_smoothing,
            micro_batch_tokens=self.config.micro_batch_tokens,
            with_bleu=self.config.validate_bleu,
            sample_translations=self.config.sample_translations,
        )
        self.machine_rate = math.inf  # FLOP/s of matrix products over all ranks, once measured
        self.progress = checkpoint.Progress()
        self.valid: dict[str, float] = {}  # validation metrics of the present weights
        self.saver = Saver(run, ranks, self.config, self.optimizer, self.progress)

    def restore(self, update: int | None = None) -> None:
        """Load the run folder's newest state; without one, stay at the start.

        Args:
            update: load this update's state instead; only for `replay`.
        """
        found = checkpoint.restore(self.run, self.optimizer.vectors(), self.ranks, update=update)
        self.optimizer.weights.refresh()
        self.progress.become(found)
        self.optimizer.learning_rate_factor = self.progress.learning_rate_factor
        self.saver = Saver(self.run, self.ranks, self.config, self.optimizer, self.progress)
        self.settle_micro_batch()
        self.report = Report(self.run, self.config, self.progress)

    def settle_micro_batch(self) -> None:
        """Choose the size of micro-batches, unless it is known, and start the stream of updates."""
        progress = self.progress
        wanted = (
            f"{self.config.micro_batch_tokens} on {self.device.type}, {self.ranks.world_size} x "
            f"{self.ranks.local_world_size}"
        )
        if progress.micro_batch_for != wanted:
            progress.micro_batch_for = wanted
            progress.micro_batch_tokens = fitting_tokens(
                self.recipe, self.data, self.runner, self.ranks, self.device
            )
        self._begin_stream()

    def train(self) -> None:
        """Train until max_updates or the end of patience.

        Raises:
            Stopped: if asked to stop, with everything saved.
            NMTError: if training diverges for good, or memory is too small for a single pair.
        """
        config, progress = self.config, self.progress
        save_is_due, first = False, True
        with self.report:
            self._begin()
            window = Window.empty(self.device)
            while True:
                update = progress.update
                if update and update % config.log_every == 0 and window.has_metrics():
                    self._log(window)
                    window = Window.empty(self.device)
                paused = time.monotonic()
                if (
                    self._is_due(config.validate_every)
                    and progress.validated != update
                    and not self._validate()
                ):
                    window = Window.empty(self.device)
                    continue
                if self._is_due(config.save_every) and not self.saver.is_current():
                    self.saver.save_checkpoint(self._present_card())
                elif save_is_due:
                    self.saver.save_state()
                window.started += time.monotonic() - paused
                if self._is_finished():
                    if self.ranks.any(self.stop()):  # a stop may have cut a validation short
                        self._stop(window)
                    if not self.optimizer.guard.ends_badly():
                        break
                    self._go_back("no finite gradient in the last updates")
                    window = Window.empty(self.device)
                    continue
                # The first update may take minutes to compile the layers, and nothing needs saving.
                with self.stop.at_once() if first and config.compile else nullcontext():
                    outcome = self.train_update(
                        window.take(self.updates), window, save=self.saver.is_overdue()
                    )
                first = False
                save_is_due = outcome.save
                if outcome.stop:
                    self._stop(window)
                elif outcome.out_of_memory:
                    self._halve_micro_batch()
                elif self.optimizer.guard.has_diverged():
                    self._go_back(
                        f"no finite gradient in {self.optimizer.guard.limit} updates in a row, up "
                        f"to update {progress.update:,}"
                    )
                    window = Window.empty(self.device)
                else:
                    self.report.advance()
            self._finish(window)

    def _is_due(self, every: int) -> bool:
        return self.progress.update > 0 and self.progress.update % every == 0

    def _is_finished(self) -> bool:
        out_of_patience = 0 < self.config.patience <= self.progress.bad_validations
        return out_of_patience or self.progress.update >= self.config.max_updates

    def flops(self, lengths: LengthSums) -> float:
        """Return the FLOPs of training on pairs of these lengths."""
        recipe, types = self.recipe, len(self.data.tgt_vocabulary)
        return training_flops(recipe.architecture, recipe.model, types, lengths)

    def train_update(self, update: Update, window: Window, *, save: bool = False) -> Outcome:
        """Run one update and count it, unless it is dropped; `save`: ask for a safety save."""
        progress = self.progress
        outcome = self.runner.run(update, progress.update + 1, save=save)
        if outcome.done:
            window.count(update, outcome)
            progress.update += 1
            progress.position = update.following
            self.valid = {}
        return outcome

    def _begin_stream(self) -> None:
        """Start the stream at the next update, with micro-batches of the present size."""
        tokens = self.progress.micro_batch_tokens
        self.validator.micro_batch_tokens = tokens
        self.cut = Cut(
            tokens,
            self.ranks.rank,
            self.ranks.world_size,
            padded_layout=not self.model.is_padding_free,
            shape=self.runner.shape(tokens, longest_pair(self.data)),
        )
        self.updates = updates_of_run(self.data, self.config, self.progress, self.cut)

    def _begin(self) -> None:
        self.machine_rate, warning = rate_of_ranks(self.config.precision, self.device, self.ranks)
        if warning and self.ranks.is_first:
            self.run.warn(warning)
        with self.ranks.together():
            if self.ranks.is_first:
                self.run.cut_metrics(self.progress.update, self.progress.validated)
                self.run.write_status("running", self.progress.update)
        if not self.ranks.is_first:
            return
        count, epoch = len(self.weights.master), updates_an_epoch(self.data, self.config)
        self.report.started(
            f"{self.recipe.preset}, {count:,} parameters, {self.config.precision} on "
            f"{self.device.type}, {self.ranks.world_size} x {self.config.threads} threads; "
            f"{len(self.data.train):,} pairs, about {epoch:,} updates an epoch; "
            f"matrix products at {self.machine_rate / 1e9:,.0f} GFLOP/s"
        )
        if self._is_finished():  # a finished run leaves its metrics as they are
            return
        self.run.record(
            {"kind": "start", "update": self.progress.update}
            | self.surroundings()
            | {"matrix_product_flops_per_second": self.machine_rate}
        )
        for remark in self.remarks:
            self.run.log(remark)

    def surroundings(self) -> dict[str, object]:
        """Return the facts and choices of this machine that decide a run's bits."""
        return {
            "device": device_name(self.device),
            "matmul": self.config.matmul,
            "ranks": self.ranks.world_size,
            "threads": self.config.threads,
            "micro_batch_tokens": self.progress.micro_batch_tokens,
            "torch": torch.__version__,
        }

    def replay(self, update: int) -> dict[str, Any]:
        """Train up to an update and return its line of metrics.jsonl, without writing it."""
        window = Window.empty(self.device)
        while self.progress.update < update:
            if not self.train_update(window.take(self.updates), window).done:
                raise NMTError("the replay stopped: out of memory, or on request; run it again")
        return self._metrics(window)

    def _metrics(self, window: Window) -> dict[str, Any]:
        """Sum the window over ranks; its time ends now."""
        progress = self.progress
        metrics = window.metrics(self.ranks, self.flops, self.machine_rate)
        progress.seconds += metrics.seconds
        place: dict[str, object] = {"kind": "train", "update": progress.update}
        return (
            place
            | dataclasses.asdict(metrics)
            | {
                "learning_rate": self.optimizer.learning_rate(progress.update),
                "seconds": progress.seconds,
                "checksum": checksum_of_all(self.weights.master, self.ranks),
            }
        )

    def _log(self, window: Window) -> None:
        """Report the metrics of the window."""
        metrics = self._metrics(window)
        if self.ranks.is_first:
            self.report.trained(metrics)

    def _validate(self) -> bool:
        """Validate the weights, and write them if they are among the best.

        Returns:
            False if the run has diverged and gone back to an earlier state.
        """
        progress, started = self.progress, time.monotonic()
        with self.weights.replaced_by(self.optimizer.kept_weights), self.runner.eager():
            result = self.validator.measure(self.model, self.stop)
        if result is None:  # asked to stop: this validation is done again on resuming
            return True
        if not math.isfinite(result.loss):
            self._go_back(f"valid loss {result.loss} at update {progress.update:,}")
            return False
        self.valid = result.metrics()
        progress.validated = progress.update
        best_before = progress.best
        improved = self._enter_among_best(result)
        progress.bad_validations = 0 if improved else progress.bad_validations + 1
        if self.ranks.is_first:
            self.report.validated(result, improved, time.monotonic() - started)
        is_among_best = progress.update in [update for _, update in progress.best]
        if is_among_best and not self.saver.save_best(self._present_card(), is_best=improved):
            progress.best = best_before
        self.saver.outdate()
        return True

    def _enter_among_best(self, result: ValidationResult) -> bool:
        """Add a result to the best ones; return whether it is the best."""
        by_bleu = self.config.best_metric == "bleu"
        metric = -(result.bleu or 0.0) if by_bleu else result.loss  # lower is better
        best = sorted([*self.progress.best, (metric, self.progress.update)])
        self.progress.best = best[: self.config.keep_best]
        return best[0][1] == self.progress.update

    def _present_card(self) -> ModelCard:
        return dataclasses.replace(self.card, update=self.progress.update, valid=self.valid)

    def _halve_micro_batch(self) -> None:
        """Halve the micro-batches after memory ran out; the update comes again."""
        progress, longest = self.progress, longest_pair(self.data)
        if progress.micro_batch_tokens <= longest:
            raise NMTError(
                f"out of memory: not even one pair of {longest} tokens fits; train a smaller model "
                "or prepare with a smaller --max-length"
            )
        progress.micro_batch_tokens = max(longest, progress.micro_batch_tokens // 2)
        self._begin_stream()
        if self.ranks.is_first:
            size = progress.micro_batch_tokens
            self.run.warn(
                f"out of memory in update {progress.update + 1:,}: micro-batches now have at most "
                f"{size:,} tokens; updates stay the same"
            )
            self.run.record(
                {"kind": "event", "update": progress.update, "micro_batch_tokens": size}
            )
        self.saver.save_state()  # the run's bits depend on the split

    def _go_back(self, found: str) -> None:
        """Go back once to the newest sound state or to the beginning, with a lower learning rate.

        Args:
            found: what has been seen of the divergence.

        Raises:
            NMTError: if the run has gone back before.
        """
        progress, sound = self.progress, None
        if progress.learning_rate_factor < 1:
            raise NMTError(
                f"{self.run.path}: diverged: {found}, as after going back once; lower "
                "learning_rate, raise warmup_updates or set clip_norm, and start in a new folder"
            )
        with self.ranks.together():
            if self.ranks.is_first:
                sound = checkpoint.newest_sound(self.run, before=progress.update)
        sound = self.ranks.gather(sound)[0]
        if sound is None:
            begin_again(self.optimizer, self.card, self.initial, self.ranks, self.device)
        target = sound or 0
        vectors = self.optimizer.vectors()
        progress.become(checkpoint.restore(self.run, vectors, self.ranks, newest=target))
        progress.learning_rate_factor = _FACTOR_AFTER_DIVERGING
        self.optimizer.learning_rate_factor = _FACTOR_AFTER_DIVERGING
        self.optimizer.weights.refresh()
        self.optimizer.guard.forgive()
        self.settle_micro_batch()
        self.saver = Saver(self.run, self.ranks, self.config, self.optimizer, progress)
        self.saver.save_state()  # or a run that is killed now would forget that it went back
        if self.ranks.is_first:
            with self.run.dispensable(self.run.path / "metrics.jsonl"):
                self.run.cut_metrics(target, progress.validated)
            self.report.went_back(
                f"{found}: back at update {target:,}, with {_FACTOR_AFTER_DIVERGING:g} times the "
                "learning rate"
            )

    def _stop(self, window: Window) -> None:
        if window.has_metrics():
            self._log(window)
            self.saver.outdate()  # the state of this update lacks the time of the window
        self.saver.save_at_the_end(self._present_card())
        reason = next(filter(None, self.ranks.gather(self.stop.reason)))
        if self.ranks.is_first:
            with self.run.dispensable(self.run.path / "status.json"):
                self.run.write_status("stopped", self.progress.update, reason)
        raise Stopped(
            f"stopped at update {self.progress.update:,} ({reason}), everything saved; run the "
            "same command again to resume"
        )

    def _finish(self, window: Window) -> None:
        if window.has_metrics():
            self._log(window)
        self.saver.save_at_the_end(self._present_card())
        if not self.ranks.is_first:
            return
        progress = self.progress
        full = progress.update >= self.config.max_updates
        reason = (
            "max_updates" if full else f"no better result in {self.config.patience} validations"
        )
        self.run.write_status("finished", progress.update, reason)
        self.report.finished(reason)
