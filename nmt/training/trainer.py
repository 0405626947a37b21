"""The training loop.

One update: its pairs come from the stream, each rank has its share of them in micro-batches, their
gradients are summed over micro-batches and ranks, and Adam steps once. Everything else in the loop
is due every so many updates. A run that is stopped and started again does what it would have done.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nmt.config import Recipe
from nmt.data.batches import Batch
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.stream import Cut, Position, Update, prefetched, updates_from
from nmt.data.subword_dropout import SubwordDropout
from nmt.errors import NMTError, Stopped
from nmt.files import link_or_copy
from nmt.models.device import DTYPES
from nmt.models.dropout import seed_dropout
from nmt.models.flops import training_flops
from nmt.models.model_file import ModelCard
from nmt.models.tied import first_few
from nmt.training import checkpoint
from nmt.training.distributed import Ranks
from nmt.training.freezing import freeze
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.machine_rate import device_name, matrix_product_rate
from nmt.training.meter import Window
from nmt.training.optimizer import FlatWeights, Optimizer
from nmt.training.report import Report
from nmt.training.run_folder import InitialModel, RunFolder
from nmt.training.schedule import learning_rate
from nmt.training.stop import StopRequest
from nmt.training.validation import ValidationResult, Validator
from nmt.training.warm_start import warm_start

# What is waiting takes little memory, and evens out what the machine does beside.
_UPDATES_AHEAD = 4


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
    ) -> None:
        self.recipe = recipe
        self.config = recipe.training
        self.data = data
        self.run = run
        self.ranks = ranks
        self.device = device
        self.card = ModelCard(
            architecture=recipe.architecture,
            config=recipe.model,
            src_lang=data.src_lang,
            tgt_lang=data.tgt_lang,
            src_vocabulary=data.src_vocabulary,
            tgt_vocabulary=data.tgt_vocabulary,
            max_src_tokens=data.info.settings.max_length,
            data=data.fingerprint,
            update=0,
            valid={},
        )
        torch.manual_seed(self.config.seed)
        self.model = self.card.build().to(device)
        self.remarks: list[str] = []  # on the weights that training starts with, for the log
        with ranks.together():
            if ranks.is_first and initial.path and not checkpoint.has_state(run):
                self.remarks += warm_start(self.model, self.card, Path(initial.path))
        frozen = freeze(self.model, self.config.freeze)
        self.weights = FlatWeights(self.model, DTYPES[self.config.precision])
        if frozen:
            trained, count = len(self.weights.trainable), len(self.weights.master)
            self.remarks.append(
                f"{count - trained:,} of {count:,} parameters are frozen: {first_few(frozen)}"
            )
        ranks.broadcast_(self.weights.master)
        self.optimizer = Optimizer(self.weights, self.config, recipe.model.d_model)
        self.weights.refresh()
        self.validator = Validator(
            data,
            ranks,
            device,
            label_smoothing=self.config.label_smoothing,
            micro_batch_tokens=self.config.micro_batch_tokens,
            with_bleu=self.config.validate_bleu,
            sample_translations=self.config.sample_translations,
        )
        self.flops = functools.partial(
            training_flops, recipe.architecture, recipe.model, len(data.tgt_vocabulary)
        )
        self.machine_rate = 0.0  # FLOP/s of matrix products, over all ranks; measured at the start
        self.stop = StopRequest()
        self.progress = checkpoint.Progress()
        self.updates = self._stream()
        self.valid: dict[str, float] = {}  # validation's figures for the present weights
        self.saved = 0  # the update whose state was written last
        self.saved_at = time.monotonic()

    def restore(self) -> None:
        """Go to where the run folder's newest state is; a fresh run stays at its beginning."""
        self.progress = checkpoint.restore(self.run, self.optimizer, self.ranks)
        self.updates = self._stream()
        self.saved = self.progress.update
        self.report = Report(self.run, self.config, self.progress)

    def train(self) -> None:
        """Train until max_updates or the end of patience.

        Raises:
            Stopped: when asked to stop, with everything saved.
            NMTError: when the loss is no longer a number.
        """
        config, progress = self.config, self.progress
        window = Window.empty(self.device)
        with self.stop.listening(), self.report:
            self._begin()
            while True:
                update = progress.update
                if update and update % config.log_every == 0 and window.updates:
                    self._log(window)
                    window = Window.empty(self.device)
                paused = time.monotonic()
                if self._is_due(config.validate_every) and progress.validated != update:
                    self._validate()
                if self._is_due(config.save_every) and self.saved != update:
                    self._save_checkpoint()
                elif self.ranks.any(self._safety_save_is_due()):
                    self._save_state()
                window.started += time.monotonic() - paused
                if self.ranks.any(self.stop()):
                    self._stop()
                if self._is_finished():
                    break
                self.train_update(window.take(self.updates), window)
                self.report.advance()
            self._finish(window)

    def _is_due(self, every: int) -> bool:
        return self.progress.update > 0 and self.progress.update % every == 0

    def _safety_save_is_due(self) -> bool:
        # By one clock only: ranks must do the same.
        waited = time.monotonic() - self.saved_at
        return self.ranks.is_first and waited > 60 * self.config.save_minutes

    def _is_finished(self) -> bool:
        out_of_patience = 0 < self.config.patience <= self.progress.bad_validations
        return out_of_patience or self.progress.update >= self.config.max_updates

    def train_update(self, update: Update, window: Window) -> None:
        """Do one update."""
        progress = self.progress
        for index, batch in enumerate(update.batches):
            self._seed_dropout(index)
            # The number of tokens is known beforehand on every rank, so gradients are only summed.
            self._backward(batch.to(self.device), update.tgt_tokens, window)
        self.ranks.sum_(self.weights.gradient)
        norm = self.optimizer.step(progress.update + 1)
        if norm is None:
            window.skipped += 1
        else:
            window.grad_norm = norm
        progress.update += 1
        following = update.following
        progress.epoch, progress.pool, progress.position = (
            following.epoch,
            following.pool,
            following.index,
        )
        self.valid = {}

    def _backward(self, batch: Batch, num_tokens: int, window: Window) -> None:
        """Add a micro-batch's share of the update's mean gradient."""
        loss, nll = smoothed_cross_entropy(
            self.model(batch),
            self.model.output_projection,
            batch.targets,
            self.config.label_smoothing,
        )
        scaled: Tensor = loss * (self.optimizer.scale.factor / num_tokens)
        scaled.backward()  # type: ignore[no-untyped-call]
        self.weights.collect_gradient()
        window.loss += loss.detach()
        window.nll += nll

    def _seed_dropout(self, micro_batch: int) -> None:
        """Make dropout a function of seed, update, rank and micro-batch, so that a resume needs no
        state of random generators."""
        key = (self.config.seed, self.progress.update, self.ranks.rank, micro_batch)
        seed_dropout(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))

    def _stream(self) -> Iterator[Update]:
        """Return the updates that come next, which a thread makes ready."""
        config, progress, info = self.config, self.progress, self.data.info.train
        check_budget(config.batch_tokens, max(info.src.longest, info.tgt.longest) + 1)
        dropouts = None
        if config.subword_dropout:
            src, tgt = (
                SubwordDropout(vocabulary, config.subword_dropout)
                for vocabulary in (self.data.src_vocabulary, self.data.tgt_vocabulary)
            )
            dropouts = src, tgt
        updates = updates_from(
            Position(progress.epoch, progress.pool, progress.position),
            self.data.train,
            Cut(config.micro_batch_tokens, self.ranks.rank, self.ranks.world_size),
            batch_tokens=config.batch_tokens,
            seed=config.seed,
            dropouts=dropouts,
        )
        return prefetched(updates, ahead=_UPDATES_AHEAD)

    def _begin(self) -> None:
        rate = matrix_product_rate(self.device, DTYPES[self.config.precision])
        self.machine_rate = sum(self.ranks.gather(rate))
        if not self.ranks.is_first:
            return
        count = len(self.weights.master)
        self.run.cut_metrics(self.progress.update, self.progress.validated)
        self.run.write_status("running", self.progress.update)
        self.report.started(
            f"{self.recipe.preset}, {count:,} parameters, {self.config.precision} on "
            f"{self.device.type}, {self.ranks.world_size} x {self.config.threads} threads; "
            f"{len(self.data.train):,} pairs, about {self._updates_an_epoch():,} updates an epoch; "
            f"matrix products at {self.machine_rate / 1e9:,.0f} GFLOP/s"
        )
        if self._is_finished():  # which leaves the metrics as they are
            return
        self.run.record(
            {
                "kind": "start",
                "update": self.progress.update,
                "device": device_name(self.device),
                "precision": self.config.precision,
                "ranks": self.ranks.world_size,
                "threads": self.config.threads,
                "torch": torch.__version__,
                "matrix_product_flops_per_second": self.machine_rate,
            }
        )
        for remark in self.remarks:
            self.run.log(remark)

    def _updates_an_epoch(self) -> int:
        train = self.data.info.train
        tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs
        visits = Epochs(self.data.train.shares, seed=self.config.seed).visits
        return round(tokens / train.pairs * visits / self.config.batch_tokens) or 1

    def _log(self, window: Window) -> None:
        """Report the window's figures."""
        progress = self.progress
        figures = window.figures(self.ranks, self.flops, self.machine_rate)
        if not (math.isfinite(figures.loss) and math.isfinite(figures.grad_norm)):
            raise self._diverged(f"loss {figures.loss}, gradient norm {figures.grad_norm}")
        progress.seconds += figures.seconds
        if self.ranks.is_first:
            place: dict[str, object] = {"kind": "train", "update": progress.update}
            rate = learning_rate(self.config, self.recipe.model.d_model, progress.update)
            others = {"learning_rate": rate, "seconds": progress.seconds}
            self.report.trained(place | dataclasses.asdict(figures) | others)

    def _diverged(self, found: str) -> NMTError:
        return NMTError(
            f"{self.run.path}: diverged before update {self.progress.update}: {found}; lower "
            "learning_rate, raise warmup_updates or set clip_norm, and start in a new folder"
        )

    def _validate(self) -> None:
        """Validate the weights that are kept, and write them if they are among the best."""
        progress, started = self.progress, time.monotonic()
        with self.weights.replaced_by(self.optimizer.kept_weights):
            result = self.validator.measure(self.model, self.stop)
        if result is None:  # asked to stop: this validation is done again on resuming
            return
        if not math.isfinite(result.loss):
            raise self._diverged(f"valid loss {result.loss}")
        self.valid = result.figures()
        progress.validated = progress.update
        improved = self._rank(result)
        progress.bad_validations = 0 if improved else progress.bad_validations + 1
        with self.ranks.together():
            if self.ranks.is_first:
                self.report.validated(result, improved, time.monotonic() - started)
                self._write_best(improved)

    def _write_best(self, improved: bool) -> None:
        """Write weights that validated among the best."""
        progress = self.progress
        if progress.update in [update for _, update in progress.best]:
            path = checkpoint.best_path(self.run, progress.update)
            checkpoint.write_weights(path, self._present_card(), self.optimizer)
        if improved:
            best = checkpoint.best_path(self.run, progress.update)
            link_or_copy(best, self.run.path / "best.safetensors")

    def _rank(self, result: ValidationResult) -> bool:
        """Enter a result among the best; tell whether it is the best of all."""
        by_bleu = self.config.best_metric == "bleu"
        figure = -(result.bleu or 0.0) if by_bleu else result.loss  # the lower, the better
        best = sorted([*self.progress.best, (figure, self.progress.update)])
        self.progress.best = best[: self.config.keep_best]
        return best[0][1] == self.progress.update

    def _present_card(self) -> ModelCard:
        return dataclasses.replace(self.card, update=self.progress.update, valid=self.valid)

    def _save_checkpoint(self) -> None:
        """Write a checkpoint that averaging may use, and the training state."""
        with self.ranks.together():
            if self.ranks.is_first:
                path = checkpoint.update_path(self.run, self.progress.update)
                checkpoint.write_weights(path, self._present_card(), self.optimizer)
                link_or_copy(path, self.run.path / "last.safetensors")
        self._save_state()

    def _save_state(self) -> None:
        """Write the training state, from which a stopped run goes on."""
        with self.ranks.together():
            if self.ranks.is_first:
                checkpoint.write_state(self.run, self.progress, self.optimizer)
                checkpoint.prune(self.run, self.progress, keep_last=self.config.keep_last)
        self.saved, self.saved_at = self.progress.update, time.monotonic()

    def _save_all(self) -> None:
        update, last = self.progress.update, self.run.path / "last.safetensors"
        if self.saved != update:
            self._save_state()
        with self.ranks.together():  # and so no rank goes before all is saved
            if self.ranks.is_first and checkpoint.update_behind(last) != update:
                checkpoint.write_weights(last, self._present_card(), self.optimizer)

    def _stop(self) -> None:
        self._save_all()
        reason = self.stop.reason or "another rank was asked to stop"
        if self.ranks.is_first:
            self.run.write_status("stopped", self.progress.update, reason)
        raise Stopped(
            f"stopped at update {self.progress.update:,} ({reason}), everything saved; run the "
            "same command again to go on"
        )

    def _finish(self, window: Window) -> None:
        if window.updates:
            self._log(window)
        self._save_all()
        if not self.ranks.is_first:
            return
        progress = self.progress
        full = progress.update >= self.config.max_updates
        reason = (
            "max_updates" if full else f"no better result in {self.config.patience} validations"
        )
        self.run.write_status("finished", progress.update, reason)
        self.report.finished(reason)
