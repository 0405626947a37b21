"""The updates of a training run, ready to be used: planned and collated ahead, in a thread.

The stream is a function of (data, budget, seed) and a position; a run that goes on asks for the
position behind its last update, which costs the plan of one pool and no more.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from nmt.data.batches import Batch, collate, micro_batches, split_update
from nmt.data.epochs import Epochs, Pairs, plan_pool
from nmt.data.permutation import Indices

Item = TypeVar("Item")


@dataclass(frozen=True, order=True)
class Position:
    """Where an update stands in the run."""

    epoch: int = 0
    pool: int = 0
    index: int = 0
    """Of the update in its pool."""


@dataclass(frozen=True)
class Update:
    """The work of one rank in one update."""

    pairs: Indices  # (pairs,) of all ranks
    batches: list[Batch]  # micro-batches of this rank
    src_tokens: int  # of all ranks, eos counted, as are the target tokens
    tgt_tokens: int
    own_tokens: int  # both sides, of this rank
    following: Position
    epoch: float
    """Epochs that are complete after this update."""


def updates_from(
    position: Position,
    pairs: Pairs,
    *,
    batch_tokens: int,
    micro_batch_tokens: int,
    seed: int,
    rank: int,
    ranks: int,
) -> Iterator[Update]:
    """Yield the updates of a run from a position on, without end."""
    epochs = Epochs(pairs.shares, seed=seed)
    while True:
        epoch, pool = position.epoch, position.pool
        plan = plan_pool(
            pairs, epochs, batch_tokens=batch_tokens, seed=seed, epoch=epoch, pool=pool
        )
        for index in range(position.index, len(plan)):
            update = plan.update(index)
            share = split_update(pairs, update, ranks=ranks)[rank]
            src_tokens, tgt_tokens = _tokens(pairs, update)
            yield Update(
                pairs=update,
                batches=[
                    collate(pairs, part) for part in micro_batches(pairs, share, micro_batch_tokens)
                ],
                src_tokens=src_tokens,
                tgt_tokens=tgt_tokens,
                own_tokens=sum(_tokens(pairs, share)),
                following=_behind(position, index, updates=len(plan), pools=epochs.pools),
                epoch=epoch + (pool + (index + 1) / len(plan)) / epochs.pools,
            )
        position = _behind(position, len(plan) - 1, updates=len(plan), pools=epochs.pools)


def _tokens(pairs: Pairs, indices: Indices) -> tuple[int, int]:
    """Return the source and target tokens of some pairs, eos counted."""
    src, tgt = (int(side.sum()) + len(indices) for side in pairs.lengths(indices))
    return src, tgt


def _behind(position: Position, index: int, *, updates: int, pools: int) -> Position:
    """Return the position behind update `index` of the pool that `position` is in."""
    if index + 1 < updates:
        return Position(position.epoch, position.pool, index + 1)
    if position.pool + 1 < pools:
        return Position(position.epoch, position.pool + 1)
    return Position(position.epoch + 1)


def prefetched(items: Iterator[Item], *, ahead: int) -> Iterator[Item]:
    """Yield the items, of which a thread keeps the next few ready; its errors come through."""
    ready: queue.Queue[Item | BaseException | None] = queue.Queue(ahead)
    closed = threading.Event()

    def put(item: Item | BaseException | None) -> None:
        while not closed.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def run() -> None:
        try:
            for item in items:
                put(item)
                if closed.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        thread.join()
