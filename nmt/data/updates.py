"""The stream of updates of a training run, planned and collated ahead in threads.

The stream depends only on (data, batch_tokens, seed) and a position. A resumed run starts at the
position after its last update, which costs only the plan of one pool.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nmt.data.augment import Augment
from nmt.data.batches import (
    Batch,
    FixedShape,
    LengthSums,
    SplitBounds,
    collate,
    micro_batches,
    split_update,
)
from nmt.data.epochs import EncodedPairs, Epochs, Indices, plan_pool
from nmt.data.shards import Lengths, TokenRows
from nmt.data.subword_dropout import SubwordDropout
from nmt.system.prefetch import prefetched

FindLinks = Callable[[TokenRows, TokenRows], Indices]
"""Returns the position of each target token's source token (see `nmt.lexical.alignment_links`)."""

_TRIED_UPDATES = 100  # for the fixed shape


@dataclass(frozen=True, order=True)
class Position:
    """The position of an update in the run."""

    epoch: int = 0
    pool: int = 0
    index: int = 0  # index of the update in its pool


class Update(NamedTuple):
    """The work of one rank in one update."""

    pairs: Indices  # (pairs,) of all ranks
    batches: list[Batch]  # micro-batches of this rank
    lengths: LengthSums  # over the pairs of all ranks
    own_tokens: int  # tokens of both sides on this rank
    following: Position
    epoch: float  # epochs that are complete after this update

    @property
    def tgt_tokens(self) -> int:
        """Target tokens of all ranks, including eos."""
        return self.lengths.tgt

    @property
    def padded_tokens(self) -> int:
        """Tokens of both sides of this rank's micro-batches, including padding."""
        return sum(batch.padded_tokens for batch in self.batches)


class BatchPartition(NamedTuple):
    """How updates are split: over ranks, into micro-batches, and to which fixed shape if any.

    Batches for a GPU have other groups (see `group_bounds`). Those for oneDNN are padded (see
    `padding_to_multiples`).
    """

    micro_batch_tokens: int
    rank: int = 0
    world_size: int = 1
    shape: FixedShape | None = None
    on_gpu: bool = False
    in_multiples: bool = False

    def parts(self, src_lengths: Lengths, tgt_lengths: Lengths) -> list[Indices]:
        """Return which of a rank's pairs each of its micro-batches holds."""
        shape = self.shape
        if shape is None:
            return micro_batches(src_lengths, tgt_lengths, self.micro_batch_tokens)
        for count in itertools.count(shape.parts):  # an unusual update takes one more
            parts = split_update(src_lengths, tgt_lengths, world_size=count)
            if all(shape.fits(src_lengths[part], tgt_lengths[part]) for part in parts if len(part)):
                break
        return [part for part in parts if len(part)]


def fixed_shape(
    pairs: EncodedPairs, bounds: SplitBounds, *, batch_tokens: int, seed: int
) -> FixedShape:
    """Return the shape for a run, from updates of its first pool (see `FixedShape.for_updates`)."""
    epochs = Epochs(pairs.shares, seed=seed)
    plan = plan_pool(pairs, epochs, batch_tokens=batch_tokens, epoch=0, pool=0)
    return FixedShape.for_updates(list(map(pairs.lengths, plan[:_TRIED_UPDATES])), bounds)


def updates_from(
    position: Position,
    pairs: EncodedPairs,
    partition: BatchPartition,
    *,
    batch_tokens: int,
    seed: int,
    augment: Augment | None = None,
    dropouts: tuple[SubwordDropout, SubwordDropout] | None = None,
    find_links: FindLinks | None = None,
) -> Iterator[Update]:
    """Yield the updates of a run from a position on, endlessly.

    Updates are planned by the stored tokens, and split by those after augmentation and dropout,
    which are drawn anew in each epoch.

    position: of the first update.
    pairs: the training pairs.
    partition: how updates are split.
    batch_tokens: the budget of an update.
    seed: of the order and of all changes.
    augment: changes the text of the pairs.
    dropouts: subword dropout for source and target, on token ids.
    find_links: links the tokens of the pairs as they are then.
    """
    epochs = Epochs(pairs.shares, seed=seed)
    planned = _planned_updates(position, pairs, epochs, batch_tokens=batch_tokens)
    with contextlib.closing(planned):
        for place, chosen, following, epoch in planned:
            src, tgt = pairs.rows(chosen)
            if augment is not None:
                src, tgt = augment(chosen, src, tgt, seed, place.epoch)
            if dropouts is not None:
                random = np.random.default_rng((seed, place.epoch, place.pool, place.index))
                src, tgt = dropouts[0](src, random), dropouts[1](tgt, random)
            shares = split_update(src.lengths, tgt.lengths, world_size=partition.world_size)
            share = shares[partition.rank]
            own_src, own_tgt = src.take(share), tgt.take(share)
            yield Update(
                pairs=chosen,
                batches=[
                    _batch(own_src.take(part), own_tgt.take(part), partition, find_links)
                    for part in partition.parts(own_src.lengths, own_tgt.lengths)
                ],
                lengths=LengthSums.of_pairs(src.lengths, tgt.lengths),
                own_tokens=sum(len(rows.ids) + len(rows) for rows in (own_src, own_tgt)),
                following=following,
                epoch=epoch,
            )


def _planned_updates(
    position: Position, pairs: EncodedPairs, epochs: Epochs, *, batch_tokens: int
) -> Generator[tuple[Position, Indices, Position, float]]:
    """Yield position, pairs, next position and complete epochs of updates, endlessly."""

    def plan(number: int) -> tuple[int, list[Indices]]:
        """Return the pairs of each update of a pool. Pools are numbered over all epochs."""
        epoch, pool = divmod(number, epochs.pools)
        return number, plan_pool(pairs, epochs, batch_tokens=batch_tokens, epoch=epoch, pool=pool)

    begun = position.epoch * epochs.pools + position.pool
    for number, updates in prefetched(map(plan, itertools.count(begun)), ahead=1):
        epoch, pool = divmod(number, epochs.pools)
        first = position.index if number == begun else 0
        for index, chosen in enumerate(updates[first:], first):
            following = Position(epoch, pool, index + 1)
            if index + 1 == len(updates):
                following = Position(*divmod(number + 1, epochs.pools))
            complete = epoch + (pool + (index + 1) / len(updates)) / epochs.pools
            yield Position(epoch, pool, index), chosen, following, complete


def _batch(
    src: TokenRows, tgt: TokenRows, partition: BatchPartition, find_links: FindLinks | None
) -> Batch:
    links = None if find_links is None else find_links(src, tgt)
    shape, on_gpu = partition.shape, partition.on_gpu
    return collate(src, tgt, shape, links, on_gpu=on_gpu, in_multiples=partition.in_multiples)
