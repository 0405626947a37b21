"""The stream of updates: each epoch whole, and the same for any number of ranks."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from pairs import like_wmt

from nmt.data import epochs
from nmt.data.batches import FixedShape, SplitBounds, split_update
from nmt.data.updates import BatchPartition, Position, Update, fixed_shape, updates_from

PAIRS = like_wmt(700)


@pytest.fixture(autouse=True)
def _small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "POOL_PAIRS", 200)  # 700 pairs are 4 pools of 175


def stream(position: Position | None = None, *, rank: int = 0, ranks: int = 1) -> Iterator[Update]:
    return updates_from(
        position or Position(),
        PAIRS,
        BatchPartition(micro_batch_tokens=400, rank=rank, world_size=ranks),
        batch_tokens=1500,
        seed=1,
    )


def test_every_epoch_visits_every_pair_once_and_is_counted_when_complete() -> None:
    by_epoch: dict[int, list[int]] = {0: [], 1: []}
    done = 0.0
    for update in itertools.takewhile(lambda update: update.epoch <= 2, stream()):
        assert done < update.epoch
        by_epoch[int(done)] += update.pairs.tolist()
        done = update.epoch
        assert done.is_integer() == (update.following.pool == update.following.index == 0)
    assert sorted(by_epoch[0]) == sorted(by_epoch[1]) == list(range(700))
    assert by_epoch[0] != by_epoch[1]


def test_updates_go_on_from_any_position() -> None:
    whole = list(itertools.islice(stream(), 40))
    for number, update in enumerate(whole[:-1]):
        goes_on = next(stream(update.following))
        expected = whole[number + 1]
        assert goes_on.pairs.tolist() == expected.pairs.tolist()
        assert (goes_on.following, goes_on.epoch) == (expected.following, expected.epoch)


def test_any_number_of_ranks_sees_the_same_updates() -> None:
    alone = list(itertools.islice(stream(), 30))
    shared = [list(itertools.islice(stream(rank=r, ranks=3), 30)) for r in range(3)]
    for number, whole in enumerate(alone):
        parts = [updates[number] for updates in shared]
        assert all(part.pairs.tolist() == whole.pairs.tolist() for part in parts)
        assert all(part.tgt_tokens == whole.tgt_tokens for part in parts)
        assert sum(part.own_tokens for part in parts) == whole.lengths.src + whole.lengths.tgt
        rows = sum(len(batch.src.starts) - 1 for part in parts for batch in part.batches)
        assert rows == len(whole.pairs)


def test_an_update_says_what_is_in_it() -> None:
    update = next(stream())
    src, tgt = PAIRS.lengths(update.pairs)
    assert update.lengths.src == (src + 1).sum()
    assert update.tgt_tokens == (tgt + 1).sum()
    assert sum(batch.num_tokens for batch in update.batches) == update.tgt_tokens
    assert len(update.batches) > 1
    assert max(len(batch.src.tokens) for batch in update.batches) <= 400
    assert update.padded_tokens == update.own_tokens


def test_a_fixed_shape_is_that_of_every_micro_batch() -> None:
    shape = fixed_shape(PAIRS, SplitBounds(1, 400, longest=250), batch_tokens=1_000, seed=1)
    partition = BatchPartition(micro_batch_tokens=400, shape=shape)
    updates = updates_from(Position(), PAIRS, partition, batch_tokens=1_000, seed=1)
    for update in itertools.islice(updates, 10):
        assert {batch.padded_tokens for batch in update.batches} == {shape.src + shape.tgt}
        assert sum(batch.num_tokens for batch in update.batches) == update.tgt_tokens


@pytest.mark.parametrize("ranks", [1, 5])
def test_an_update_that_does_not_fit_the_shape_takes_more_micro_batches(ranks: int) -> None:
    random = np.random.default_rng(1)
    shape = FixedShape(400, 400, 60, parts=1)
    partition = BatchPartition(micro_batch_tokens=400, shape=shape)
    for total in (0, 1, 3, 40, 200):
        src, tgt = random.integers(0, 300, (2, total)).astype(np.int32)
        share = split_update(src, tgt, world_size=ranks)[-1]
        parts = partition.parts(src[share], tgt[share])
        assert sorted(np.concatenate([[], *parts]).tolist()) == [*range(len(share))]
        assert all(shape.fits(src[share][part], tgt[share][part]) for part in parts)
        tokens = int((src[share] + 1).sum()), int((tgt[share] + 1).sum())
        assert len(parts) <= 2 * max(tokens) / 400 + 1
