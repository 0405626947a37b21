"""The training loop.

For each update: take its batches from the stream, run forward and backward over this rank's
micro-batches, sum the gradients over ranks, and step Adam once (`UpdateRunner.run`). Then see to
what went wrong, and log, validate and save if that is due. A run that is stopped and resumed gives
the same result as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from nmt.config import Recipe
from nmt.data.augment import Augmenter
from nmt.data.batches import LengthSums
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.stages import Stages
from nmt.data.subword_dropout import SubwordDropout
from nmt.data.updates import BatchPartition, Update, updates_from
from nmt.distributed import Ranks
from nmt.errors import NMTError, Stopped
from nmt.models.flops import training_flops
from nmt.models.model_file import ModelCard
from nmt.pipeline import prefetched
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.runs.report import Report
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training.course import ends, has_forgotten, warnings_before
from nmt.training.first_weights import card_of, first_weights
from nmt.training.guidance import learn_links
from nmt.training.memory import fitting_tokens, longest_pair
from nmt.training.meter import Window, checksum_of_all, rate_of_ranks
from nmt.training.optimizer import Optimizer
from nmt.training.saving import Saver
from nmt.training.settle import describe_choices, surroundings
from nmt.training.stop import StopRequest
from nmt.training.update import Outcome, UpdateRunner, Verdict
from nmt.training.validation import Validator

# Waiting updates take little memory, and even out other load on the machine.
_UPDATES_AHEAD = 4
# Updates that are launched before we ask what became of the one before them.
_UNKNOWN = {"cpu": 0, "cuda": 1}
_FACTOR_AFTER_DIVERGING = 0.5  # of the learning rate


@dataclass(frozen=True)
class Setup:
    """What a run is made of; `launch.set_up` makes it."""

    recipe: Recipe
    data: DataFolder
    run: RunFolder
    initial: InitialModel
    ranks: Ranks
    device: torch.device
    changes: str = ""
    """What a run that is resumed now has other values of; old and new."""


class Trainer:
    """One process of a training run."""

    partition: BatchPartition  # known from `restore` on
    updates: Iterator[Update]  # those after the present one
    report: Report  # while it trains

    def __init__(self, setup: Setup, stop: StopRequest) -> None:
        """Build the model with its initial weights; call `restore` before `train`."""
        self.recipe = recipe = setup.recipe
        self.config = recipe.training
        self.data = data = setup.data
        self.run = run = setup.run
        self.ranks = ranks = setup.ranks
        self.device = device = setup.device
        self.stop = stop
        self.card = card_of(recipe, data)
        # A resumed run loads its weights from its state.
        warm = setup.initial.path and not checkpoint.updates_of(run, checkpoint.STATE)
        self.model, self.weights, self.remarks = first_weights(
            self.card,
            self.config,
            ranks,
            device,
            warm_from=Path(setup.initial.path) if warm else None,
        )
        self.optimizer = Optimizer(self.weights, self.config, recipe.model.d_model)
        self.stages = Stages.of(data, recipe.stages)
        self.augmenter = Augmenter.of(data, recipe.augment)
        self.linker = learn_links(self.config, data, ranks)
        self.runner = UpdateRunner(self.model, self.optimizer, ranks, recipe, device, stop)
        self.validator = Validator(data, ranks, device, self.config)
        self.saver = Saver(run, ranks, self.config, self.optimizer)
        self.machine_rate = math.inf  # FLOP/s of matrix products over all ranks, once measured
        self.state = RunState()
        self.valid: dict[str, float] = {}  # validation metrics of the present weights
        self.window = Window.empty(device)
        # updates whose verdict is unknown, and the state before each
        self.unknown: deque[tuple[RunState, Update, Outcome]] = deque()

    # --- the loop

    def train(self) -> None:
        """Train until max_updates or the end of patience, and validate the last update.

        Raises:
            Stopped: if asked to stop, with everything saved.
            NMTError: if training diverges for good, or memory is too small for a single pair.
        """
        self.report = Report(self.run, self.config, self.state.update)
        was_finished = self._is_finished() and self.state.validated == self.state.update
        with self.report:
            self._begin(was_finished=was_finished)
            self._do_what_is_due(save=False)  # what a stop cut short, before the resume
            while not self._is_finished():
                update = self.window.take(self.updates)
                save, stage = self.saver.is_due(self.state.update + 1), self.state.position.stage
                self.train_update(update, save=save)
                has_begun = self.state.position.stage > stage
                verdict = self.settle(wait=has_begun or self._is_something_due())
                self._after(verdict)
                if self.state.position.stage > stage and self.ranks.is_first:
                    position = self.state.position
                    self.report.stage_began(self.state, self.stages.describe(position.stage))
                self._do_what_is_due(save=verdict.save)
            self._finish(was_finished=was_finished)

    def train_update(self, update: Update, *, save: bool = False) -> None:
        """Launch one update, which `settle` sees the end of; `save`: ask to save the state."""
        number = self.state.update + 1
        outcome = self.runner.run(update, number, save=save)
        self.unknown.append((self.state, update, outcome))
        self.state = dataclasses.replace(self.state, update=number, position=update.following)
        self.valid = {}

    def settle(self, *, wait: bool) -> Verdict:
        """Count the updates whose verdict is known, and go back to the first one dropped.

        wait: for all verdicts, else on a GPU the newest stays unknown. We also wait for all of
            them if a rank asks to save.
        """
        verdict, save = Verdict(), False
        while len(self.unknown) > (0 if wait or save else _UNKNOWN[self.device.type]):
            before, update, outcome = self.unknown.popleft()
            verdict = outcome.verdict()
            save = save or verdict.save
            if verdict.dropped:  # with all updates after it
                self.state = before
                self.unknown.clear()
                self.runner.go_on()
            else:
                self.window.count(update, outcome)
        return dataclasses.replace(verdict, save=save)

    def _after(self, verdict: Verdict) -> None:
        """See to what went wrong in an update, if anything did."""
        update, bad = self.state.update - len(self.unknown), verdict.bad_in_a_row
        if verdict.stop:
            self._stop()
        elif verdict.out_of_memory:
            self._halve_micro_batch()
        elif verdict.uncompiled:
            self.stop_compiling(self.run.warn)
        elif self.optimizer.guard.are_too_many(bad, last=self._is_finished()):
            self._go_back(f"no finite gradient in {bad} updates in a row, up to update {update:,}")
        else:
            self.report.advance(update)

    def _is_something_due(self) -> bool:
        """Whether something is to be done after the present update that needs its verdict."""
        config = self.config
        cadences = config.log_every, config.validate_every, config.save_every
        return self._is_finished() or any(self.state.update % every == 0 for every in cadences)

    def _do_what_is_due(self, *, save: bool) -> None:
        """Log, validate and save what the present update calls for; `save`: the state is due."""
        update, config, is_last = self.state.update, self.config, self._is_finished()
        if update and (update % config.log_every == 0 or is_last):
            self._log()
        best = False
        is_due = update > 0 and (update % config.validate_every == 0 or is_last)
        # Forgetting counts from the first weights, so they are validated, too.
        is_first = update == 0 and config.valid_old != self.state.old_text
        if is_first or (is_due and self.state.validated != update):
            with self.window.paused():
                is_whole = self._validate()
            if not is_whole:
                self._stop()
            best = update in self.state.best_updates
        # At the end the model is written before the state, so that a run that is killed in between
        # makes the model again, with its metrics.
        save = save and not self._is_finished()
        is_new = self.saver.saved != self.state
        checkpoint = update > 0 and update % config.save_every == 0 and is_new
        if best or checkpoint or save:
            with self.window.paused():
                self._save(best=best, checkpoint=checkpoint, whole=save or is_first)

    def _save(self, *, best: bool = False, checkpoint: bool = False, whole: bool = False) -> None:
        """Save the model as a best one or a checkpoint, and the training state."""
        if not best:  # else a validation has just come after `settled`
            self.state = self.saver.settled(self.state)
        card = self._present_card()
        self.saver.save(self.state, card, best=best, checkpoint=checkpoint, whole=whole)

    def _is_finished(self) -> bool:
        return bool(ends(self.config, self.state))

    # --- the start

    def restore(self) -> None:
        """Load the run folder's newest state, or begin; then start the stream of updates."""
        found = checkpoint.restore(self.run, self.optimizer.vectors(), self.ranks)
        self._go_on_from(found or RunState())
        self.saver.resume_from(self.state if found else None)

    def _go_on_from(self, state: RunState) -> None:
        """Continue from a state whose vectors have been loaded."""
        self.state = state
        self.optimizer.loaded(learning_rate_factor=state.learning_rate_factor)
        self.valid = {}
        self.unknown.clear()
        self.window = Window.empty(self.device)
        self.settle_micro_batch()

    def settle_micro_batch(self) -> None:
        """Choose the size of micro-batches, unless it is known, and start the stream of updates."""
        wanted = (
            f"{self.config.micro_batch_tokens} on {self.device.type}, {self.ranks.world_size} x "
            f"{self.ranks.local_world_size}"
        )
        if self.state.micro_batch_for != wanted:
            tokens = fitting_tokens(self.recipe, self.data, self.runner, self.ranks, self.device)
            self.state = dataclasses.replace(
                self.state, micro_batch_tokens=tokens, micro_batch_for=wanted
            )
        self.start_stream(self.ranks.rank, self.ranks.world_size)

    def start_stream(self, rank: int, world_size: int) -> None:
        """Let a thread prepare the next updates, in micro-batches of the present size.

        Raises:
            UsageError: if a single pair exceeds the budget of an update.
        """
        data, config, tokens = self.data, self.config, self.state.micro_batch_tokens
        longest = longest_pair(data)
        check_budget(config.batch_tokens, longest)
        self.validator.micro_batch_tokens = tokens
        shape = self.runner.shape(
            data.train, world_size=world_size, micro_batch_tokens=tokens, longest=longest
        )
        self.partition = BatchPartition(
            tokens, rank, world_size, shape, on_gpu=self.device.type == "cuda"
        )
        dropouts, p = None, config.subword_dropout
        if p:
            dropouts = (
                SubwordDropout(data.src_vocabulary, p),
                SubwordDropout(data.tgt_vocabulary, p),
            )
        updates = updates_from(
            self.state.position,
            data.train,
            self.partition,
            batch_tokens=config.batch_tokens,
            seed=config.seed,
            augmenter=self.augmenter,
            stages=self.stages,
            done=self.state.update,
            dropouts=dropouts,
            find_links=self.linker,
        )
        self.updates = prefetched(updates, ahead=_UPDATES_AHEAD)

    def _begin(self, *, was_finished: bool) -> None:
        self.machine_rate, warning = rate_of_ranks(self.config.precision, self.device, self.ranks)
        if warning and self.ranks.is_first:
            self.run.warn(warning)
        self.saver.prepare()
        state = self.state
        with self.ranks.together():
            if self.ranks.is_first:
                self.run.cut_metrics(state.update, state.validated)
                self.run.write_status("running", state.update)
        if self.ranks.is_first:
            about = (
                f"{self.recipe.preset}, {self.weights.count:,} parameters, "
                f"{describe_choices(self.config, self.device, self.ranks, state)}; "
                f"{len(self.data.train):,} pairs, about {self.updates_an_epoch():,} updates an "
                f"epoch; matrix products at {self.machine_rate / 1e9:,.0f} GFLOP/s"
            )
            self.report.started(state, "" if was_finished else about)
            if not self._is_finished():  # a finished run leaves its metrics as they are
                rate = {"matrix_product_flops_per_second": self.machine_rate}
                facts = {"kind": "start", "update": state.update}
                facts |= surroundings(self.config, self.device, self.ranks, state)
                self.run.record(facts | rate)
                warnings = warnings_before(self.config, self.updates_an_epoch())
                for warning in warnings + self.validator.doubts():
                    self.run.warn(warning)
                for remark in self.remarks:
                    self.run.log(remark)
                if self.recipe.stages:
                    self.run.log(self.stages.describe(state.position.stage))
        if self.saver.saved is None:  # a run that diverges early goes back to the beginning
            self._save(whole=True)
        self.window = Window.empty(self.device)  # whose time begins now

    def updates_an_epoch(self) -> int:
        """Return about how many updates an epoch has, from its tokens."""
        train = self.data.info.train
        tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
        shares = self.stages.shares[self.state.position.stage]
        visits = Epochs(shares, seed=self.config.seed).visits
        return round(tokens / train.pairs * visits / self.config.batch_tokens) or 1

    # --- what is due

    def _log(self) -> None:
        """Report the metrics of the window, and begin another one."""
        if not self.window.has_metrics():
            return
        metrics = self.metrics()
        if self.ranks.is_first:
            self.report.trained(self.state, metrics)
        self.window = Window.empty(self.device)

    def metrics(self) -> dict[str, Any]:
        """Sum the window over ranks, as a line of metrics.jsonl; its time ends now."""
        metrics = self.window.metrics(self.ranks, self.flops, self.machine_rate)
        seconds = self.state.seconds + metrics["seconds"]
        self.state = dataclasses.replace(self.state, seconds=seconds)
        update = self.state.update
        place: dict[str, object] = {"kind": "train", "update": update}
        more: dict[str, object] = {
            "learning_rate": self.optimizer.learning_rate(update),
            "seconds": seconds,
            "checksum": checksum_of_all(self.optimizer.vectors()["weights"], self.ranks),
        }
        return place | metrics | more

    def flops(self, lengths: LengthSums) -> float:
        """Return the FLOPs of training on pairs of these lengths."""
        recipe, types = self.recipe, len(self.data.tgt_vocabulary)
        return training_flops(recipe.architecture, recipe.model, types, lengths)

    def _validate(self) -> bool:
        """Validate the weights.

        Returns:
            False if asked to stop before the end; a resumed run validates again.
        """
        self.state = self.saver.settled(self.state)
        started = time.monotonic()
        with self.weights.replaced_by(self.optimizer.kept_weights), self.runner.eager():
            result = self.validator.measure(self.model, self.stop)
        if result is None:
            return False
        if not math.isfinite(result.loss):
            self._go_back(f"valid loss {result.loss} at update {self.state.update:,}")
            return True
        self.valid = result.metrics()
        update, config = self.state.update, self.config
        metric = result.best_by(config.best_metric)
        self.state = self.state.measured_old(config.valid_old, result.old_score)
        if has_forgotten(config, self.state):  # so these weights are not the best
            state = dataclasses.replace(self.state, validated=update)
        else:
            is_extra = update % config.validate_every > 0
            state = self.state.validated_as(
                metric, result.loss, keep_best=config.keep_best, is_extra=is_extra
            )
        if self.ranks.is_first:
            self.report.validated(state, result, time.monotonic() - started)
        self.state = state
        return True

    def _present_card(self) -> ModelCard:
        return dataclasses.replace(self.card, update=self.state.update, valid=self.valid)

    # --- what went wrong

    def _halve_micro_batch(self) -> None:
        """Halve the micro-batches after memory ran out; the update comes again."""
        state, longest = self.state, longest_pair(self.data)
        if state.micro_batch_tokens <= longest:
            raise NMTError(
                f"out of memory: not even one pair of {longest} tokens fits; train a smaller model "
                "or prepare with a smaller --max-length"
            )
        size = max(longest, state.micro_batch_tokens // 2)
        self.state = dataclasses.replace(state, micro_batch_tokens=size)
        self.start_stream(self.ranks.rank, self.ranks.world_size)
        if self.ranks.is_first:
            self.run.warn(
                f"out of memory in update {state.update + 1:,}: micro-batches now have at most "
                f"{size:,} tokens; updates stay the same"
            )
            self.run.record({"kind": "event", "update": state.update, "micro_batch_tokens": size})
        self._save(whole=True)  # the run's bits depend on the split

    def stop_compiling(self, warn: Callable[[str], None]) -> None:
        """Do without torch.compile after it failed; the update comes again."""
        warning = self.runner.stop_compiling()
        self.start_stream(self.ranks.rank, self.ranks.world_size)
        if self.ranks.is_first:
            warn(warning)

    def _go_back(self, found: str) -> None:
        """Go back once to the newest state before the divergence, with a lower learning rate.

        Args:
            found: what has been seen of the divergence.

        Raises:
            NMTError: if the run has gone back before, or has no such state.
        """
        went_back = self.state.learning_rate_factor < 1
        sound = None
        if not went_back:
            self.saver.wait()
            vectors, update = self.optimizer.vectors(), self.state.update
            sound = checkpoint.restore(self.run, vectors, self.ranks, before=update)
        if sound is None:
            why = "as after going back once" if went_back else "with no state to go back to"
            raise NMTError(
                f"{self.run.path}: diverged: {found}, {why}; lower learning_rate, raise "
                "warmup_updates or set clip_norm, and start in a new folder"
            )
        factor = _FACTOR_AFTER_DIVERGING
        sound_again = dataclasses.replace(
            sound,
            learning_rate_factor=factor,
            old_text=self.state.old_text,
            old_score=self.state.old_score,
        )
        self._go_on_from(sound_again)
        self.saver.resume_from(sound)
        self._save(whole=True)  # or a run that is killed now would forget the factor
        if self.ranks.is_first:
            with self.run.dispensable(self.run.path / "metrics.jsonl"):
                self.run.cut_metrics(sound.update, sound.validated)
            at = f"back at update {sound.update:,}, with {factor:g} times the learning rate"
            self.report.went_back(self.state, f"{found}: {at}")

    # --- the end

    def _stop(self) -> NoReturn:
        reason = self.ranks.agree_to_stop(self.stop.reason)
        self._log()
        self.saver.save_at_the_end(self.state, self._present_card())
        update = self.state.update
        if self.ranks.is_first:
            with self.run.dispensable(self.run.path / "status.json"):
                self.run.write_status("stopped", update, reason)
        raise Stopped(
            f"stopped at update {update:,} ({reason}), everything saved; run the same command "
            "again to resume"
        )

    def _finish(self, *, was_finished: bool) -> None:
        self._log()
        self.saver.save_at_the_end(self.state, self._present_card())
        found = ends(self.config, self.state)
        if self.ranks.is_first:
            self.run.write_status("finished", self.state.update, found[0].reason)
            longer = " ".join(end.longer for end in found) if was_finished else ""
            self.report.finished(self.state, found[0].reason, longer=longer)
