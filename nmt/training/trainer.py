"""One process of a training run: what it is made of, and the state that it has reached.

`train.py` is the loop. The methods here change the state: they take a step, measure it, save it, or
repeat it when memory runs out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from nmt import console
from nmt.config.presets import FINE_TUNING
from nmt.config.recipes import Recipe
from nmt.data.augment import augment_by
from nmt.data.batches import LengthSums, SplitBounds
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.subword_dropout import SubwordDropout
from nmt.data.updates import BatchPartition, Update, updates_from
from nmt.data.vocabulary import EOS_ID
from nmt.errors import NMTError
from nmt.models.device import dtype_of, return_freed_memory
from nmt.models.flops import training_flops
from nmt.models.model_file import ModelCard
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.runs.report import ValidationResult
from nmt.system.distributed import Ranks
from nmt.system.prefetch import prefetched
from nmt.training.first_weights import card_of, first_weights
from nmt.training.guided_alignment import learn_links
from nmt.training.learning_rate import fall_of
from nmt.training.memory import fitting_tokens, longest_pair, share_of_update
from nmt.training.optimizer import Optimizer
from nmt.training.run_metrics import MetricsWindow, device_name, matrix_product_rate
from nmt.training.saving import Saver
from nmt.training.setup import OpenRun
from nmt.training.stop_request import StopRequest
from nmt.training.stopping_criteria import ends, warnings_before
from nmt.training.update import TrainStep, UpdateResult
from nmt.training.validation import Validator, spread

# Waiting updates take little memory, and even out other load on the machine.
_UPDATES_AHEAD = 4
_TRIM_EVERY = 20
"""Updates after which a CPU returns freed memory: else what a rare long batch took stays in use."""
# Updates that are launched before we ask what became of the one before them.
_UNREAD = {"cpu": 0, "cuda": 1}
_EARLY = 1, 10, 25, 50  # updates that are logged, too


class Trainer:
    """One process of a training run. Only its own methods change its state."""

    def __init__(self, opened: OpenRun, stop: StopRequest) -> None:
        """Build the model with its initial weights; `resume_or_begin` loads a state."""
        recipe, data, run, ranks = opened.recipe, opened.data, opened.run, opened.ranks
        self.recipe = recipe
        self.config = config = recipe.training
        self.run = run
        self.ranks = ranks
        self.device = device = opened.device
        self.stop = stop
        self.card = card_of(recipe, data)
        # A resumed run loads its weights from its state.
        is_new = not checkpoint.updates_of(run, checkpoint.STATE)
        init_from, _ = opened.initial
        warm_from = Path(init_from) if init_from and is_new else None
        self.model, weights, self.remarks = first_weights(
            self.card, config, ranks, device, warm_from=warm_from
        )
        self.optimizer = Optimizer(weights, config, recipe.model.d_model)
        self.data = data
        self.longest = longest_pair(data)
        self._updates_from = _changed_updates(recipe, data, ranks)
        self._updates: Iterator[Update]  # after the present one, since `begin_stream`
        # Other subwords and other text make sentences longer than the longest one in the data.
        keeps_lengths = not (config.subword_dropout or recipe.augment.any)
        self.train_step = TrainStep(
            self.model, self.optimizer, ranks, device, stop, keeps_lengths=keeps_lengths
        )
        self.validator = Validator(data, ranks, device, config)
        self.saver = Saver(run, ranks, self.optimizer)
        self.state = RunState()
        self.valid: dict[str, float] = {}  # validation metrics of the present weights
        self.window = MetricsWindow.empty(device)
        # updates whose result is not read yet, and the state before each
        self._unread: deque[tuple[RunState, Update, UpdateResult]] = deque()

        self.machine_rate = math.inf  # FLOP/s of matrix products over all ranks, once measured

    @property
    def ends(self) -> dict[str, str]:
        """See `stopping_criteria.ends`."""
        return ends(self.config, self.state, self.last_update)

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to train."""
        return bool(self.ends)

    @property
    def last_update(self) -> int:
        """The update after which training ends, as far as is known."""
        return self.optimizer.fall[1]

    @property
    def is_logged(self) -> bool:
        """Whether this update is logged: every so many, and some early ones if those are rare."""
        update, every = self.state.update, self.config.log_every
        return update % every == 0 or (update in _EARLY and every > _EARLY[-1])

    # --- where it begins

    def resume_or_begin(self) -> None:
        """Load the run folder's newest state, or begin; then start the stream of updates."""
        saved = checkpoint.restore(self.run, self.optimizer.vectors(), self.ranks)
        self.state = saved or RunState()
        self.optimizer.weights.refresh()
        self.optimizer.fall = fall_of(self.config, self.state.history)
        self.begin_window()
        self.choose_micro_batch()
        self.saver.resume_from(self.state if saved else None)

    def begin_window(self) -> None:
        """Count metrics anew from now on."""
        self.window = MetricsWindow.empty(self.device)

    def choose_micro_batch(self) -> None:
        """Choose the size of micro-batches, unless it is known, and start the stream of updates."""
        ranks, asked = self.ranks, self.config.micro_batch_tokens
        wanted = f"{asked} on {self.device.type}, {ranks.world_size} x {ranks.local_world_size}"
        if self.state.micro_batch_for != wanted:
            tokens = fitting_tokens(self.recipe, self.data, self.train_step)
            self.state = replace(self.state, micro_batch_tokens=tokens, micro_batch_for=wanted)
        self.begin_stream()

    def begin_stream(self, share: tuple[int, int] | None = None, tokens: int | None = None) -> None:
        """Let a thread prepare the next updates, in micro-batches of the present size or another.

        share: which share of each update, of how many; by default that of this process.
        UsageError if a single pair exceeds the budget of an update.
        """
        check_budget(self.config.batch_tokens, self.longest)
        if tokens:
            self.state = replace(self.state, micro_batch_tokens=tokens)
        config, tokens = self.config, self.state.micro_batch_tokens
        share = share or (self.ranks.rank, self.ranks.world_size)
        # More would take more memory than training does.
        most = share_of_update(config.batch_tokens, share[1])
        self.validator.micro_batch_tokens = min(tokens, most)
        bounds = SplitBounds(share[1], tokens, self.longest)
        shape = self.train_step.shape(self.data.train, bounds)
        on_gpu = self.device.type == "cuda"
        # MKL's products in fp32 take any number of tokens, and padding would only cost time.
        by_onednn = not on_gpu and (config.precision != "fp32" or config.matmul == "onednn")
        partition = BatchPartition(tokens, *share, shape, on_gpu=on_gpu, in_multiples=by_onednn)
        updates = self._updates_from(self.state.position, partition=partition)
        self._updates = prefetched(updates, ahead=_UPDATES_AHEAD)

    def measure_machine(self) -> None:
        """Measure the rate of matrix products, of all ranks together."""
        rate = matrix_product_rate(self.device, dtype_of(self.config.precision))
        self.machine_rate = sum(self.ranks.gather(rate))

    def start_record(self) -> dict[str, object]:
        """Return the facts and choices of this machine that decide a run's bits."""
        return {
            "kind": "start",
            "update": self.state.update,
            "device": device_name(self.device),
            "matmul": self.config.matmul,
            "compile": self.config.compile,
            "ranks": self.ranks.world_size,
            "threads": self.config.threads,
            "micro_batch_tokens": self.state.micro_batch_tokens,
            "torch": torch.__version__,
            "matrix_product_flops_per_second": self.machine_rate,
        }

    def describe(self) -> str:
        """Name the same for people, after the model, and then the data."""
        config, device, an_epoch = self.config, self.device.type, self.updates_an_epoch()
        choices = [
            self.recipe.preset.replace(FINE_TUNING, "fine-tuning"),
            f"{self.optimizer.weights.count:,} parameters",
            f"{config.precision} on {device}",
            f"{self.ranks.world_size} x {console.counted(config.threads, 'thread', 'threads')}"
            + f" ({self.ranks.reason})" * bool(self.ranks.reason),
            f"micro-batches of {self.state.micro_batch_tokens:,} tokens",
        ]
        if device == "cpu" and config.precision == "fp32":
            choices.append(f"products by {config.matmul}")
        choices += ["compiled"] * config.compiles
        return (
            f"{', '.join(choices)}; "
            f"{len(self.data.train):,} pairs, about "
            f"{console.counted(an_epoch, 'update', 'updates')} an epoch"
        )

    def warnings(self) -> list[str]:
        """Return what is probably wrong with the length of the run, or its valid text."""
        return warnings_before(self.config, self.updates_an_epoch()) + self.validator.doubts()

    def updates_an_epoch(self) -> int:
        """Return about how many updates an epoch has, from its tokens."""
        train = self.data.info.train
        tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
        visits = Epochs(self.data.train.shares, seed=self.config.seed).visits
        return round(tokens / train.pairs * visits / self.config.batch_tokens) or 1

    # --- an update

    def next_update(self) -> Update:
        """Return the next update, once a thread has made it."""
        return self.window.take(self._updates)

    def advance(self, update: Update, result: UpdateResult) -> None:
        """Take note of an update that is launched; `read_results` sees the end of it."""
        if self.state.update % _TRIM_EVERY == 0 and self.device.type == "cpu":
            return_freed_memory()
        self._unread.append((self.state, update, result))
        number = self.state.update + 1
        self.state = replace(self.state, update=number, position=update.following)
        self.valid = {}

    def read_results(self, *, wait: bool) -> list[UpdateResult]:
        """Read results of launched updates, oldest first, and count them.

        At one that was dropped we go back to the state before it; then it is the last of them.

        wait: for all results, else on a GPU the newest stays unread. We also wait for all of them
            if a rank asks to save.
        """
        results = list[UpdateResult]()
        while len(self._unread) > (0 if wait else _UNREAD[self.device.type]):
            before, update, result = self._unread.popleft()
            results.append(result)
            wait = wait or bool(result.outcome.save)
            if result.outcome.dropped:  # with all updates after it
                self.state = before
                self._unread.clear()
                self.train_step.go_on()
            else:
                self.window.count(update, result)
        return results

    def recover(self, results: Sequence[UpdateResult]) -> bool:
        """See to what went wrong in the newest update that was read.

        Returns whether the run now goes on from another state, or in another way. NMTError if
        training diverges, or not even one pair fits into memory.
        """
        if not results:
            return False
        newest, update = results[-1].outcome, self.state.update - len(self._unread)
        bad, scaler = newest.bad_in_a_row, self.optimizer.loss_scaler
        if newest.out_of_memory:
            self._halve_micro_batch()
            return True
        if scaler.has_diverged(bad, last=self.is_finished):
            raise self._diverged(
                f"no finite gradient in {bad} updates in a row, up to update {update:,}"
            )
        return False

    def _halve_micro_batch(self) -> None:
        """Halve the micro-batches after memory ran out; the update comes again."""
        tokens, update = self.state.micro_batch_tokens, self.state.update
        longest = self.longest
        if tokens <= longest:
            raise NMTError(
                f"out of memory: not even one pair of {longest} tokens fits; train a smaller model "
                "or prepare with a smaller --max-length"
            )
        half = max(longest, tokens // 2)
        self.begin_stream(tokens=half)
        if self.ranks.is_first:
            self.run.warn(
                f"out of memory in update {update + 1:,}: micro-batches now have at most "
                f"{half:,} tokens; updates stay the same"
            )
            self.run.record({"kind": "event", "update": update, "micro_batch_tokens": half})
        self.save(whole=True)  # the run's bits depend on the split

    def _diverged(self, symptom: str) -> NMTError:
        return NMTError(
            f"{self.run.path}: diverged: {symptom}; lower learning_rate, raise warmup_updates or "
            "set clip_norm, and start in a new folder"
        )

    # --- measuring and saving

    def count_seconds(self, seconds: float) -> None:
        """Add to the time spent training."""
        self.state = replace(self.state, seconds=self.state.seconds + seconds)

    def validate(self) -> ValidationResult | None:
        """Validate the weights.

        Returns None if asked to stop before the end; a resumed run validates again. NMTError if
        their loss is no number.
        """
        self.state = state = self.saver.confirmed(self.state)
        return_freed_memory()
        with (
            self.optimizer.weights.replaced_by(self.optimizer.eval_weights),
            self.train_step.eager(),
            console.progress("validating", total=self.validator.work, unit="lines") as bar,
        ):
            result = self.validator.measure(self.model, self.stop, bar.update)
        return_freed_memory()
        if result is None:
            return None
        if not math.isfinite(result.loss):
            raise self._diverged(f"valid loss {result.loss} at update {state.update:,}")
        self.valid = result.metrics()
        config = self.config
        self.state = state.validated_as(
            result.best_by(config.best_metric),
            result.loss,
            keep_best=config.keep_best,
            is_extra=state.update % config.validate_every > 0,
        )
        self.optimizer.fall = fall_of(self.config, self.state.history)
        return result

    def doubt(self) -> str:
        """Return that the weights just validated are no better than guessing, and what to do.

        To guess is to give each token its frequency in train, whatever the source: the nll is the
        entropy of these frequencies. Models learn that much in their first 100 updates.
        """
        train, update, nll = self.data.train, self.state.update, self.valid.get("nll", 0.0)
        _, tgt = train.rows(np.array(spread(10_000, len(train))))  # pairs, or all
        ids = np.append(tgt.ids, np.full(len(tgt), EOS_ID))
        _, counts = np.unique(ids, return_counts=True)
        guessing = math.log(len(ids)) - float(counts @ np.log(counts)) / len(ids)
        if update <= max(100, self.config.warmup_updates) or nll < guessing:
            return ""
        return (
            f"valid nll {nll:.2f} at update {update:,} is no better than guessing "
            f"({guessing:.2f}): training has diverged, or learning_rate is far too low; start in a "
            "new folder with another learning_rate, more warmup_updates or clip_norm"
        )

    def save(self, *, best: bool = False, checkpoint: bool = False, whole: bool = False) -> None:
        """Save the model as a best one or a checkpoint, and the training state."""
        if not best:  # else a validation has just come after `confirmed`
            self.state = self.saver.confirmed(self.state)
        card = self._present_card()
        self.saver.save(self.state, card, best=best, checkpoint=checkpoint, whole=whole)

    def save_at_the_end(self) -> None:
        """Save the training state and the last model, and wait until they are written."""
        self.saver.save_at_the_end(self.state, self._present_card())

    def _present_card(self) -> ModelCard:
        return replace(self.card, update=self.state.update, valid=self.valid)

    def flops(self, lengths: LengthSums) -> float:
        """Return the FLOPs of training on pairs of these lengths."""
        types = len(self.card.tgt_vocabulary)
        return training_flops(self.card.architecture, self.card.config, types, lengths)


def _changed_updates(recipe: Recipe, data: DataFolder, ranks: Ranks) -> partial[Iterator[Update]]:
    """Return `updates_from` with everything that the recipe does to the pairs.

    All ranks learn the links together, if the recipe has guided alignment.
    """
    config = recipe.training
    p, sides = config.subword_dropout, (data.src_vocabulary, data.tgt_vocabulary)
    return partial(
        updates_from,
        pairs=data.train,
        batch_tokens=config.batch_tokens,
        seed=config.seed,
        augment=augment_by(data, recipe.augment),
        dropouts=(SubwordDropout(sides[0], p), SubwordDropout(sides[1], p)) if p else None,
        find_links=learn_links(config, data, ranks),
    )
