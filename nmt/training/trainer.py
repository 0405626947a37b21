"""One process of a training run: what it is made of, and the state that it has reached.

`loop.py` trains it, and `recovery.py` brings it to a state that it can go on from.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.config import Recipe
from nmt.data.augment import augment_by
from nmt.data.batches import LengthSums
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.stages import Stages
from nmt.data.subword_dropout import SubwordDropout
from nmt.data.updates import BatchPartition, Update, updates_from
from nmt.distributed import Ranks
from nmt.models.flops import training_flops
from nmt.pipeline import prefetched
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.runs.report import Report
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training.command_line import CommandLine
from nmt.training.course import ends
from nmt.training.first_weights import card_of, first_weights
from nmt.training.guidance import learn_links
from nmt.training.memory import longest_pair
from nmt.training.meter import MetricsWindow
from nmt.training.optimizer import Optimizer
from nmt.training.saving import Saver
from nmt.training.stop import StopRequest
from nmt.training.update import UpdateResult, UpdateRunner
from nmt.training.validation import Validator

# Waiting updates take little memory, and even out other load on the machine.
_UPDATES_AHEAD = 4
# Updates that are launched before we ask what became of the one before them.
_UNREAD = {"cpu": 0, "cuda": 1}


@dataclass(frozen=True)
class TrainingSetup:
    """What a run is made of; `launch.set_up` makes it."""

    recipe: Recipe
    command: CommandLine
    data: DataFolder
    run: RunFolder
    initial: InitialModel
    ranks: Ranks
    device: torch.device
    changes: str = ""
    """What a run that is resumed now has other values of; old and new."""


class Trainer:
    """One process of a training run."""

    partition: BatchPartition  # since `start_stream`
    updates: Iterator[Update]  # those after the present one; since `start_stream`
    report: Report  # while it trains

    def __init__(self, setup: TrainingSetup, stop: StopRequest) -> None:
        """Build the model with its initial weights; `resume_or_begin` loads a state."""
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
        self.augment = augment_by(data, recipe.augment)
        self.linker = learn_links(self.config, data, ranks)
        self.runner = UpdateRunner(self.model, self.optimizer, ranks, recipe, device, stop)
        self.validator = Validator(data, ranks, device, self.config)
        self.saver = Saver(run, ranks, self.config, self.optimizer)
        self.machine_rate = math.inf  # FLOP/s of matrix products over all ranks, once measured
        self.state = RunState()
        self.valid: dict[str, float] = {}  # validation metrics of the present weights
        self.window = MetricsWindow.empty(device)
        # updates whose result is not read yet, and the state before each
        self.unread: deque[tuple[RunState, Update, UpdateResult]] = deque()

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to train."""
        return bool(ends(self.config, self.state))

    def start_stream(self, rank: int | None = None, world_size: int | None = None) -> None:
        """Let a thread prepare the next updates, in micro-batches of the present size.

        Args:
            rank: which share of each update is prepared; by default that of this process.
            world_size: into how many shares updates are split; by default one for each process.

        Raises:
            UsageError: if a single pair exceeds the budget of an update.
        """
        data, config, tokens = self.data, self.config, self.state.micro_batch_tokens
        rank = self.ranks.rank if rank is None else rank
        world_size = world_size or self.ranks.world_size
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
            src, tgt = data.src_vocabulary, data.tgt_vocabulary
            dropouts = SubwordDropout(src, p), SubwordDropout(tgt, p)
        updates = updates_from(
            self.state.position,
            data.train,
            self.partition,
            batch_tokens=config.batch_tokens,
            seed=config.seed,
            augment=self.augment,
            stages=self.stages,
            done=self.state.update,
            dropouts=dropouts,
            find_links=self.linker,
        )
        self.updates = prefetched(updates, ahead=_UPDATES_AHEAD)

    def advance(self, update: Update, result: UpdateResult) -> None:
        """Take note of an update that is launched; `read_results` sees the end of it."""
        self.unread.append((self.state, update, result))
        number, decay_begins = self.state.update + 1, self.config.decay_begins
        self.state = dataclasses.replace(
            self.state,
            update=number,
            position=update.following,
            decay_began=decay_begins if number > decay_begins else 0,
        )
        self.valid = {}

    def read_results(self, *, wait: bool) -> list[UpdateResult]:
        """Read results of launched updates, oldest first, and count them.

        At one that was dropped we go back to the state before it; then it is the last of them.

        wait: for all results, else on a GPU the newest stays unread. We also wait for all of them
            if a rank asks to save.
        """
        results = list[UpdateResult]()
        while len(self.unread) > (0 if wait else _UNREAD[self.device.type]):
            before, update, result = self.unread.popleft()
            results.append(result)
            wait = wait or result.save
            if result.dropped:  # with all updates after it
                self.state = before
                self.unread.clear()
                self.runner.go_on()
            else:
                self.window.count(update, result)
        return results

    def save(self, *, best: bool = False, checkpoint: bool = False, whole: bool = False) -> None:
        """Save the model as a best one or a checkpoint, and the training state.

        Raises:
            DataError: if the data were written over, so that the weights are of no known data.
        """
        self._check_data()
        if not best:  # else a validation has just come after `confirmed`
            self.state = self.saver.confirmed(self.state)
        card = dataclasses.replace(self.card, update=self.state.update, valid=self.valid)
        self.saver.save(self.state, card, best=best, checkpoint=checkpoint, whole=whole)

    def save_at_the_end(self) -> None:
        """Save the training state and the last model, and wait until they are written.

        Raises:
            DataError: see `save`.
        """
        self._check_data()
        card = dataclasses.replace(self.card, update=self.state.update, valid=self.valid)
        self.saver.save_at_the_end(self.state, card)

    def _check_data(self) -> None:
        with self.ranks.raise_on_all_ranks():
            self.data.train.check_unchanged()

    def updates_an_epoch(self) -> int:
        """Return about how many updates an epoch has, from its tokens."""
        train = self.data.info.train
        tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
        shares = self.stages.shares[self.state.position.stage]
        visits = Epochs(shares, seed=self.config.seed).visits
        return round(tokens / train.pairs * visits / self.config.batch_tokens) or 1

    def flops(self, lengths: LengthSums) -> float:
        """Return the FLOPs of training on pairs of these lengths."""
        recipe, types = self.recipe, len(self.data.tgt_vocabulary)
        return training_flops(recipe.architecture, recipe.model, types, lengths)
