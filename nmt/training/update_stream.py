"""The updates of a run after its present one, in micro-batches, which a thread prepares."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.config.recipes import Recipe
from nmt.data.augment import augment_by
from nmt.data.batches import FixedShape
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.subword_dropout import SubwordDropout
from nmt.data.updates import BatchPartition, Update, updates_from
from nmt.runs.checkpoint import RunState
from nmt.system.distributed import Ranks
from nmt.system.lookahead import prefetched
from nmt.training.guided_alignment import learn_links
from nmt.training.memory import longest_pair

# Waiting updates take little memory, and even out other load on the machine.
_UPDATES_AHEAD = 4


class UpdateStream:
    """Makes updates, with everything that the recipe does to their pairs."""

    updates: Iterator[Update]
    """Those after the present one, since `begin`."""

    def __init__(self, recipe: Recipe, data: DataFolder, ranks: Ranks) -> None:
        self.data = data
        self.longest = longest_pair(data)
        self.config = recipe.training
        self._augment = augment_by(data, recipe.augment)
        self._linker = learn_links(self.config, data, ranks)
        p, sides = self.config.subword_dropout, (data.src_vocabulary, data.tgt_vocabulary)
        self._dropouts = (SubwordDropout(sides[0], p), SubwordDropout(sides[1], p)) if p else None

    def begin(
        self, state: RunState, share: tuple[int, int], shape: FixedShape | None, *, on_gpu: bool
    ) -> None:
        """Let a thread prepare the updates after a state, in micro-batches of its size.

        Args:
            state: where the run is.
            share: which share of each update is prepared, and into how many it is split.
            shape: of all micro-batches; None: any will do.
            on_gpu: whether micro-batches go to a GPU.

        Raises:
            UsageError: if a single pair exceeds the budget of an update.
        """
        check_budget(self.config.batch_tokens, self.longest)
        updates = updates_from(
            state.position,
            self.data.train,
            BatchPartition(state.micro_batch_tokens, *share, shape, on_gpu=on_gpu),
            batch_tokens=self.config.batch_tokens,
            seed=self.config.seed,
            augment=self._augment,
            dropouts=self._dropouts,
            find_links=self._linker,
        )
        self.updates = prefetched(updates, ahead=_UPDATES_AHEAD)

    def updates_an_epoch(self) -> int:
        """Return about how many updates an epoch has, from its tokens."""
        train = self.data.info.train
        tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
        visits = Epochs(self.data.train.shares, seed=self.config.seed).visits
        return round(tokens / train.pairs * visits / self.config.batch_tokens) or 1
