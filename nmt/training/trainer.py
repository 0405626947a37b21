"""The training loop.

One update: its pairs come from the stream, each rank has its share of them in micro-batches, their
gradients are summed over micro-batches and ranks, and Adam steps once. Everything else in the loop
is due every so many updates. A run that is stopped and started again does what it would have done.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt import console
from nmt.config import Recipe
from nmt.data.batches import Batch
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.stream import Cut, Position, Update, prefetched, updates_from
from nmt.data.subword_dropout import SubwordDropout
from nmt.errors import NMTError, Stopped
from nmt.models.device import DTYPES
from nmt.models.model_file import ModelCard
from nmt.training import checkpoint
from nmt.training.checksum import checksum
from nmt.training.distributed import Ranks
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.optimizer import FlatWeights, Optimizer, learning_rate
from nmt.training.run_folder import RunFolder
from nmt.training.saving import Saver
from nmt.training.stop import StopRequest
from nmt.training.validation import ValidationResult, Validator

# What is waiting takes little memory, and evens out what the machine does beside.
_UPDATES_AHEAD = 4


@dataclass
class Window:
    """What has happened since the last line of the log; tensors stay on the device until then."""

    loss: Tensor  # summed over target tokens
    nll: Tensor
    grad_norm: Tensor  # of the last update
    updates: int = 0
    target_tokens: int = 0
    real_tokens: int = 0  # both sides
    padded_tokens: int = 0  # both sides, padding counted, of this rank
    own_tokens: int = 0  # both sides, of this rank
    skipped: int = 0  # updates whose fp16 gradient overflowed
    epoch: float = 0.0  # complete after the last update
    started: float = dataclasses.field(default_factory=time.monotonic)

    @classmethod
    def empty(cls, device: torch.device) -> Window:
        """Return a window in which nothing has happened."""
        loss, nll, grad_norm = torch.zeros(3, device=device)
        return cls(loss, nll, grad_norm)


class Trainer:
    """One process of a training run."""

    def __init__(
        self,
        recipe: Recipe,
        data: DataFolder,
        run: RunFolder,
        ranks: Ranks,
        device: torch.device,
        stop: StopRequest,
        *,
        replay_from: int | None = None,
    ) -> None:
        """Make a model and bring it to where the run has come to.

        Args:
            replay_from: the update to start from instead, for `replay` alone.
        """
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
        self.weights = FlatWeights(self.model, DTYPES[self.config.precision])
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
        )
        self.stop = stop
        self.progress = checkpoint.restore(run, self.optimizer, ranks, update=replay_from)
        self.saver = Saver(run, ranks, self.config, self.optimizer, self.progress)
        self.updates = self._stream()
        self.valid: dict[str, float] = {}  # validation's figures for the present weights

    def train(self) -> None:
        """Train until max_updates or the end of patience.

        Raises:
            Stopped: when asked to stop, with everything saved.
            NMTError: when the loss is no longer a number.
        """
        config, progress = self.config, self.progress
        window = Window.empty(self.device)
        bar = console.progress(
            "training", total=config.max_updates, unit="updates", initial=progress.update
        )
        with self.stop.listening(), bar:
            self._begin()
            while True:
                update = progress.update
                if update and update % config.log_every == 0 and window.target_tokens:
                    bar.set_postfix_str(self._log(window), refresh=False)
                    window = Window.empty(self.device)
                paused = time.monotonic()
                if self._is_due(config.validate_every) and progress.validated != update:
                    self._validate()
                if self._is_due(config.save_every) and self.saver.saved != update:
                    self.saver.save_checkpoint(self._present_card())
                elif self.ranks.any(self.saver.is_overdue()):
                    self.saver.save_state()
                window.started += time.monotonic() - paused
                if self.ranks.any(self.stop()):
                    self._stop()
                if self._is_finished():
                    break
                self._train_update(window)
                bar.update(1)
            self._finish(window)

    def _is_due(self, every: int) -> bool:
        return self.progress.update > 0 and self.progress.update % every == 0

    def _is_finished(self) -> bool:
        out_of_patience = 0 < self.config.patience <= self.progress.bad_validations
        return out_of_patience or self.progress.update >= self.config.max_updates

    def _train_update(self, window: Window) -> None:
        """Do one update."""
        progress, update = self.progress, next(self.updates)
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
        window.updates += 1
        window.target_tokens += update.tgt_tokens
        window.real_tokens += update.tgt_tokens + update.src_tokens
        window.own_tokens += update.own_tokens
        window.epoch = update.epoch
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
            self.model(batch), batch.targets, self.config.label_smoothing
        )
        scaled: Tensor = loss * (self.optimizer.scale.factor / num_tokens)
        scaled.backward()  # type: ignore[no-untyped-call]
        self.weights.collect_gradient()
        window.loss += loss.detach()
        window.nll += nll
        window.padded_tokens += batch.src.numel() + batch.tgt_out.numel()

    def _seed_dropout(self, micro_batch: int) -> None:
        """Make dropout a function of seed, update, rank and micro-batch, so that a resume needs no
        state of random generators."""
        key = (self.config.seed, self.progress.update, self.ranks.rank, micro_batch)
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))

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
        with self.ranks.together():
            if self.ranks.is_first:
                self.run.cut_metrics(self.progress.update, self.progress.validated)
                self.run.write_status("running", self.progress.update)
        if not self.ranks.is_first:
            return
        count = len(self.weights.master)
        verb = (
            f"going on at update {self.progress.update:,}" if self.progress.update else "starting"
        )
        self.run.log(
            f"{verb}: {self.recipe.preset}, {count:,} parameters, {self.config.precision} on "
            f"{self.device.type}, {self.ranks.world_size} x {self.config.threads} threads; "
            f"{len(self.data.train):,} pairs, about {self._updates_an_epoch():,} updates an epoch"
        )

    def _updates_an_epoch(self) -> int:
        train = self.data.info.train
        tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs
        visits = Epochs(self.data.train.shares, seed=self.config.seed).visits
        return round(tokens / train.pairs * visits / self.config.batch_tokens) or 1

    def replay(self, update: int) -> dict[str, Any]:
        """Train up to an update and return what its line of metrics.jsonl would be, unwritten."""
        window = Window.empty(self.device)
        while self.progress.update < update:
            self._train_update(window)
        return self._figures(window)

    def _figures(self, window: Window) -> dict[str, Any]:
        """Sum the window up over ranks; time is counted up to now."""
        progress = self.progress
        self.ranks.sum_(window.loss)
        self.ranks.sum_(window.nll)
        loss, nll = (float(x) / window.target_tokens for x in (window.loss, window.nll))
        norm = float(window.grad_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise self._diverged(f"loss {loss}, gradient norm {norm}")
        seconds = time.monotonic() - window.started
        progress.seconds += seconds
        return {
            "kind": "train",
            "update": progress.update,
            "epoch": window.epoch,
            "loss": loss,
            "nll": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "learning_rate": learning_rate(self.config, self.recipe.model.d_model, progress.update),
            "grad_norm": norm,
            "tokens_per_second": window.real_tokens / seconds,
            "padding": 1 - window.own_tokens / max(1, window.padded_tokens),
            "skipped_updates": window.skipped,
            "seconds": progress.seconds,
            "updates": window.updates,  # that loss and speed are the mean of
            "checksum": checksum(self.weights.master),
        }

    def _log(self, window: Window) -> str:
        """Write the window's figures; return them in short."""
        progress, figures = self.progress, self._figures(window)
        short = f"loss {figures['loss']:.3f}, {figures['tokens_per_second']:,.0f} tokens/s"
        if self.ranks.is_first:
            self.run.record(figures)
            self.run.log(
                f"update {progress.update:,} epoch {figures['epoch']:.2f}: {short}, perplexity "
                f"{figures['perplexity']:.2f}, learning rate {figures['learning_rate']:.3g}, "
                f"gradient {figures['grad_norm']:.3f}"
            )
        return short

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
        best_before = progress.best
        improved = self._rank(result)
        progress.bad_validations = 0 if improved else progress.bad_validations + 1
        if self.ranks.is_first:
            self._record_validation(result, improved, time.monotonic() - started)
        is_among_best = progress.update in [update for _, update in progress.best]
        if is_among_best and not self.saver.save_best(self._present_card(), is_first=improved):
            progress.best = best_before

    def _record_validation(self, result: ValidationResult, improved: bool, seconds: float) -> None:
        progress = self.progress
        self.run.record({"kind": "valid", "update": progress.update} | dict(self.valid))
        bleu = "" if result.bleu is None else f", BLEU {result.bleu:.2f} ({result.bleu_signature})"
        self.run.log(
            f"update {progress.update:,} valid: loss {result.loss:.4f}, perplexity "
            f"{result.perplexity:.3f}{bleu}{', the best so far' if improved else ''} "
            f"({seconds:.1f} s)"
        )
        self.run.draw_curves()

    def _rank(self, result: ValidationResult) -> bool:
        """Enter a result among the best; tell whether it is the best of all."""
        by_bleu = self.config.best_metric == "bleu"
        figure = -(result.bleu or 0.0) if by_bleu else result.loss  # the lower, the better
        best = sorted([*self.progress.best, (figure, self.progress.update)])
        self.progress.best = best[: self.config.keep_best]
        return best[0][1] == self.progress.update

    def _present_card(self) -> ModelCard:
        return dataclasses.replace(self.card, update=self.progress.update, valid=self.valid)

    def _stop(self) -> None:
        self.saver.save_at_the_end(self._present_card())
        reason = next(filter(None, self.ranks.gather(self.stop.reason)))
        if self.ranks.is_first:
            self.run.write_status("stopped", self.progress.update, reason)
        raise Stopped(
            f"stopped at update {self.progress.update:,} ({reason}), everything saved; run the "
            "same command again to go on"
        )

    def _finish(self, window: Window) -> None:
        if window.target_tokens:
            self._log(window)
        self.saver.save_at_the_end(self._present_card())
        if not self.ranks.is_first:
            return
        progress = self.progress
        full = progress.update >= self.config.max_updates
        reason = (
            "max_updates" if full else f"no better result in {self.config.patience} validations"
        )
        self.run.draw_curves()
        self.run.write_status("finished", progress.update, reason)
        model = "best" if (self.run.path / "best.safetensors").exists() else "last"
        self.run.log(
            f"finished at update {progress.update:,} ({reason}) after {progress.seconds / 60:.1f} "
            f"minutes; model: {self.run.path / model}.safetensors"
        )
