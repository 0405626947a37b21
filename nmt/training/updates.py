"""Which updates a run does: from where it stands, cut for its ranks and for the memory at hand."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.config import TrainingConfig
from nmt.data.epochs import Epochs, check_budget
from nmt.data.folder import DataFolder
from nmt.data.stream import Cut, Update, prefetched, updates_from
from nmt.data.subword_dropout import SubwordDropout
from nmt.training.checkpoint import Progress
from nmt.training.micro_batch import longest_pair

# What is waiting takes little memory, and evens out what the machine does beside.
_UPDATES_AHEAD = 4


def updates_of_run(
    data: DataFolder, config: TrainingConfig, progress: Progress, cut: Cut
) -> Iterator[Update]:
    """Return the updates that come next, which a thread makes ready.

    Raises:
        UsageError: if one pair alone is above the budget of an update.
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
        passed_over=frozenset(progress.passed_over),
    )
    return prefetched(updates, ahead=_UPDATES_AHEAD)


def updates_an_epoch(data: DataFolder, config: TrainingConfig) -> int:
    """Return about how many updates an epoch has, by its tokens, without planning it."""
    train = data.info.train
    tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs  # with eos
    visits = Epochs(data.train.shares, seed=config.seed).visits
    return round(tokens / train.pairs * visits / config.batch_tokens) or 1
