"""How an update is cut over ranks and into micro-batches, and what their tensors hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_up_pairs import Lengths, TextPairs, like_wmt, with_eos
from numpy.typing import NDArray

from nmt.data.batches import (
    Batch,
    batches_by_length,
    collate,
    micro_batches,
    pad_sources,
    split_update,
)
from nmt.data.epochs import Epochs, plan_pool

PAD, BOS, EOS = 0, 2, 3


def updates(pairs: Lengths, *, batch_tokens: int) -> list[NDArray[np.int64]]:
    """Return the updates of an epoch."""
    epochs = Epochs(pairs.shares, seed=1)
    plan = plan_pool(pairs, epochs, batch_tokens=batch_tokens, seed=1, epoch=0, pool=0)
    return [plan.update(index) for index in range(len(plan))]


# ------------------------------------------------------------- ranks and micro-batches


@pytest.mark.parametrize("ranks", range(1, 10))
def test_ranks_share_an_update_disjoint_complete_and_in_order(ranks: int) -> None:
    pairs = like_wmt(400)
    for update in updates(pairs, batch_tokens=3_000):
        shares = [update[share] for share in split_update(*pairs.lengths(update), ranks=ranks)]
        assert len(shares) == ranks
        assert np.concatenate(shares).tolist() == update.tolist()


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ranks_get_about_equal_numbers_of_tokens(ranks: int) -> None:
    pairs = like_wmt(2_000)
    costs = pairs.src + pairs.tgt + 2
    for update in updates(pairs, batch_tokens=10_000):
        shares = [update[share] for share in split_update(*pairs.lengths(update), ranks=ranks)]
        fair = costs[update].sum() / ranks
        # A border lies within half a pair of its fair place, and a share has two borders.
        assert all(abs(costs[s].sum() - fair) <= costs[update].max() for s in shares)


def test_more_ranks_than_pairs_leave_some_without() -> None:
    shares = split_update(*with_eos((5, 5), (5, 5)).lengths(np.array([1, 0])), ranks=5)
    assert sorted(len(share) for share in shares) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("budget", [300, 1_000, 8_192])
def test_micro_batches_stay_within_the_padded_bound_complete_and_in_order(budget: int) -> None:
    pairs = like_wmt(1_000)
    update = np.random.default_rng(0).permutation(1_000)
    parts = [update[part] for part in micro_batches(*pairs.lengths(update), budget)]
    assert np.concatenate(parts).tolist() == update.tolist()
    for part in parts:
        assert len(part) * (pairs.src[part].max() + 1) <= budget
        assert len(part) * (pairs.tgt[part].max() + 1) <= budget


def test_micro_batches_are_cut_by_hand_as_expected() -> None:
    # The longer side counts: 4 5 9 2 2. 2 * 5 <= 10, 3 * 9 > 10; 9 stands alone, since 2 * 9 > 10.
    pairs = with_eos((4, 3), (1, 5), (9, 2), (2, 2), (2, 1))
    parts = micro_batches(*pairs.lengths(np.arange(5)), 10)
    assert [part.tolist() for part in parts] == [[0, 1], [2], [3, 4]]


def test_micro_batches_are_few_and_about_equal() -> None:
    # 21 pairs of 10 tokens: 10 fit at once, so it takes three runs; 10, 10 and 1 would be uneven.
    pairs = with_eos(*[(10, 10)] * 21)
    parts = micro_batches(*pairs.lengths(np.arange(21)), 105)
    assert [len(part) for part in parts] == [7, 7, 7]


def test_a_pair_longer_than_a_micro_batch_stands_alone() -> None:
    pairs = with_eos((3, 3), (40, 2), (3, 3), (2, 40))
    parts = micro_batches(*pairs.lengths(np.arange(4)), 10)
    assert [part.tolist() for part in parts] == [[0], [1], [2], [3]]


def test_a_rank_without_pairs_has_no_micro_batches() -> None:
    nothing = np.zeros(0, np.int32)
    assert micro_batches(nothing, nothing, 10) == []


# ---------------------------------------------------------------------------- tensors


def test_collate_makes_the_tensors_of_two_pairs() -> None:
    pairs = TextPairs([([7, 8, 9], [11]), ([5], [12, 13, 14])])
    batch = collate(*pairs.rows(np.array([0, 1])))
    assert batch.src.tolist() == [[7, 8, 9, EOS], [5, EOS, PAD, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 11, PAD, PAD], [BOS, 12, 13, 14]]
    assert batch.tgt_out.tolist() == [[11, EOS, PAD, PAD], [12, 13, 14, EOS]]
    assert batch.target_positions.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.targets.tolist() == [11, EOS, 12, 13, 14, EOS]
    assert batch.num_tokens == 6
    assert {tensor.dtype for tensor in vars(batch).values()} == {torch.int64}


def test_collate_keeps_the_order_that_it_is_given() -> None:
    pairs = TextPairs([([7], [8]), ([9, 10], [11])])
    assert collate(*pairs.rows(np.array([1, 0]))).src.tolist() == [[9, 10, EOS], [7, EOS, PAD]]


def test_pad_sources_closes_and_pads_lines_that_are_translated() -> None:
    assert pad_sources([[7, 8], [], [9]]).tolist() == [[7, 8, EOS], [EOS, PAD, PAD], [9, EOS, PAD]]


def test_a_batch_moves_as_a_whole() -> None:
    batch = collate(*TextPairs([([7], [8])]).rows(np.array([0]))).to(torch.device("meta"))
    assert isinstance(batch, Batch)
    assert {tensor.device.type for tensor in vars(batch).values()} == {"meta"}


def test_validation_batches_cover_all_pairs_once_without_randomness() -> None:
    rows = [([4 + n] * (1 + n % 5), [4 + n] * (1 + n % 7)) for n in range(40)]
    found = list(batches_by_length(TextPairs(rows), 30))
    assert sorted(int(row[0]) - 4 for batch in found for row in batch.src) == list(range(40))
    assert sum(batch.num_tokens for batch in found) == sum(len(tgt) + 1 for _, tgt in rows)
    assert all(max(batch.src.numel(), batch.tgt_in.numel()) <= 30 for batch in found)
    again = list(batches_by_length(TextPairs(rows), 30))
    assert [batch.src.tolist() for batch in again] == [batch.src.tolist() for batch in found]
