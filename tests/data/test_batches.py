"""Which pairs make up which update, and what their tensors hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nmt.data.batches import (
    Batch,
    EpochPlan,
    batches_by_length,
    collate,
    micro_batches,
    pad_sources,
    plan_epoch,
    split_update,
)
from nmt.errors import UsageError

PAD, BOS, EOS = 0, 2, 3


@dataclass
class TextPairs:
    """Pairs of the given ids."""

    rows: Sequence[tuple[list[int], list[int]]]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def src_lengths(self) -> NDArray[np.int32]:
        return np.array([len(src) for src, _ in self.rows], dtype=np.int32)

    @property
    def tgt_lengths(self) -> NDArray[np.int32]:
        return np.array([len(tgt) for _, tgt in self.rows], dtype=np.int32)

    def src(self, index: int) -> NDArray[np.uint16]:
        return np.array(self.rows[index][0], dtype=np.uint16)

    def tgt(self, index: int) -> NDArray[np.uint16]:
        return np.array(self.rows[index][1], dtype=np.uint16)


@dataclass
class Lengths:
    """Pairs of which only the lengths matter, eos not counted, as data folders give them."""

    src_lengths: NDArray[np.int32]
    tgt_lengths: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.src_lengths)

    def src(self, index: int) -> NDArray[np.int64]:
        return np.full(self.src_lengths[index], 5)

    def tgt(self, index: int) -> NDArray[np.int64]:
        return np.full(self.tgt_lengths[index], 6)


def with_eos(*lengths: tuple[int, int]) -> Lengths:
    """Pairs of these (source, target) lengths with eos counted."""
    src, tgt = np.array(lengths, dtype=np.int32).T
    return Lengths(src - 1, tgt - 1)


def like_wmt(pairs: int, seed: int = 7) -> Lengths:
    """Lengths as of news text in subwords: about 27 tokens a side, at most 250, correlated."""
    random = np.random.default_rng(seed)
    src = np.clip(random.gamma(2.2, 12.0, pairs), 1, 249)
    tgt = np.clip(src * random.normal(1.05, 0.18, pairs), 1, 249)
    return Lengths(src.astype(np.int32), tgt.astype(np.int32))


def updates(plan: EpochPlan) -> list[list[int]]:
    return [plan.update(index).tolist() for index in range(len(plan))]


# ----------------------------------------------------------------------------- updates


@pytest.mark.parametrize("budget", [250, 300, 1_000, 25_000, 10**7])
def test_an_epoch_visits_each_pair_once_and_no_update_exceeds_the_budget(budget: int) -> None:
    pairs = like_wmt(3_000)
    found = updates(plan_epoch(pairs, batch_tokens=budget, seed=1, epoch=0))
    assert sorted(index for update in found for index in update) == list(range(3_000))
    for update in found:
        assert update
        assert (pairs.src_lengths[update] + 1).sum() <= budget
        assert (pairs.tgt_lengths[update] + 1).sum() <= budget


def test_updates_are_about_full() -> None:
    pairs = like_wmt(20_000)
    found = updates(plan_epoch(pairs, batch_tokens=5_000, seed=1, epoch=0))
    fuller_side = [
        max((side[update] + 1).sum() for side in (pairs.src_lengths, pairs.tgt_lengths))
        for update in found
    ]
    # Cut greedily: a side is full up to one pair, except in the last cut.
    assert sum(tokens < 5_000 - 250 for tokens in fuller_side) <= 1


def test_the_order_is_a_pure_function_of_seed_and_epoch() -> None:
    pairs = like_wmt(500)
    first = updates(plan_epoch(pairs, batch_tokens=1_000, seed=3, epoch=4))
    np.random.default_rng(0)
    np.random.seed(99)  # a global state that must not matter
    torch.manual_seed(99)
    assert updates(plan_epoch(pairs, batch_tokens=1_000, seed=3, epoch=4)) == first


@pytest.mark.parametrize(("seed", "epoch"), [(3, 5), (4, 4), (4, 3)])
def test_other_seeds_and_epochs_make_other_updates_in_another_order(seed: int, epoch: int) -> None:
    pairs = like_wmt(500)
    first = updates(plan_epoch(pairs, batch_tokens=1_000, seed=3, epoch=4))
    other = updates(plan_epoch(pairs, batch_tokens=1_000, seed=seed, epoch=epoch))
    assert other != first
    assert {frozenset(update) for update in other} != {frozenset(update) for update in first}


def test_updates_come_in_no_order_of_length() -> None:
    pairs = like_wmt(5_000)
    plan = plan_epoch(pairs, batch_tokens=1_000, seed=1, epoch=0)
    means = [float(pairs.tgt_lengths[update].mean()) for update in updates(plan)]
    assert abs(float(np.corrcoef(means, range(len(means)))[0, 1])) < 0.3


def test_pairs_are_ordered_as_in_the_docstring() -> None:
    pairs = with_eos((3, 4), (9, 5), (8, 6), (2, 7), (7, 9), (4, 8))
    plan = plan_epoch(pairs, batch_tokens=1_000, seed=1, epoch=0)
    lengths = zip(pairs.src_lengths + 1, pairs.tgt_lengths + 1, strict=True)
    table = [(int(src), int(tgt)) for src, tgt in lengths]
    assert [table[i] for i in plan.order] == [(2, 7), (3, 4), (8, 6), (9, 5), (7, 9), (4, 8)]


def test_an_update_is_cut_where_either_side_is_full() -> None:
    # All of one class, so ordered by source length: sources 1 2 3 4 and targets 7 6 5 4, budget 13.
    # 7 + 6 = 13 targets fit, a third pair makes 18; then 3 + 4 sources and 5 + 4 targets fit.
    pairs = with_eos((1, 7), (2, 6), (3, 5), (4, 4))
    plan = plan_epoch(pairs, batch_tokens=13, seed=1, epoch=0)
    assert sorted(map(sorted, updates(plan))) == [[0, 1], [2, 3]]
    # And the other way round: sources 9 and 10 do not fit 13 together, targets would.
    sources = with_eos((9, 5), (10, 4))
    assert len(plan_epoch(sources, batch_tokens=13, seed=1, epoch=0)) == 2


@pytest.mark.parametrize("lengths", [((3, 12), (4, 5)), ((12, 3), (4, 5))])
def test_a_pair_above_the_budget_is_an_error_that_says_what_to_do(
    lengths: tuple[tuple[int, int], ...],
) -> None:
    with pytest.raises(UsageError, match=r"batch_tokens is 11.*12 tokens; raise batch_tokens"):
        plan_epoch(with_eos(*lengths), batch_tokens=11, seed=1, epoch=0)
    assert len(plan_epoch(with_eos(*lengths), batch_tokens=12, seed=1, epoch=0)) > 0


# ------------------------------------------------------------- ranks and micro-batches


@pytest.mark.parametrize("ranks", range(1, 10))
def test_ranks_share_an_update_disjoint_complete_and_in_order(ranks: int) -> None:
    pairs = like_wmt(400)
    plan = plan_epoch(pairs, batch_tokens=3_000, seed=1, epoch=0)
    for index in range(len(plan)):
        update = plan.update(index)
        shares = split_update(pairs, update, ranks=ranks)
        assert len(shares) == ranks
        assert np.concatenate(shares).tolist() == update.tolist()


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_ranks_get_about_equal_numbers_of_tokens(ranks: int) -> None:
    pairs = like_wmt(2_000)
    plan = plan_epoch(pairs, batch_tokens=10_000, seed=1, epoch=0)
    costs = pairs.src_lengths + pairs.tgt_lengths + 2
    for index in range(len(plan)):
        update = plan.update(index)
        shares = split_update(pairs, update, ranks=ranks)
        fair = costs[update].sum() / ranks
        # A border lies within half a pair of its fair place, and a share has two borders.
        assert all(abs(costs[s].sum() - fair) <= costs[update].max() for s in shares)


def test_more_ranks_than_pairs_leave_some_without() -> None:
    shares = split_update(with_eos((5, 5), (5, 5)), np.array([1, 0]), ranks=5)
    assert sorted(len(share) for share in shares) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("budget", [300, 1_000, 8_192])
def test_micro_batches_stay_within_the_padded_bound_complete_and_in_order(budget: int) -> None:
    pairs = like_wmt(1_000)
    update = np.random.default_rng(0).permutation(1_000)
    parts = micro_batches(pairs, update, budget)
    assert np.concatenate(parts).tolist() == update.tolist()
    for part in parts:
        assert len(part) * (pairs.src_lengths[part].max() + 1) <= budget
        assert len(part) * (pairs.tgt_lengths[part].max() + 1) <= budget


def test_micro_batches_are_cut_by_hand_as_expected() -> None:
    # The longer side counts: 4 5 9 2 2. 2 * 5 <= 10, 3 * 9 > 10; 9 stands alone, since 2 * 9 > 10.
    pairs = with_eos((4, 3), (1, 5), (9, 2), (2, 2), (2, 1))
    parts = micro_batches(pairs, np.arange(5), 10)
    assert [part.tolist() for part in parts] == [[0, 1], [2], [3, 4]]


def test_a_pair_longer_than_a_micro_batch_stands_alone() -> None:
    pairs = with_eos((3, 3), (40, 2), (3, 3), (2, 40))
    parts = micro_batches(pairs, np.arange(4), 10)
    assert [part.tolist() for part in parts] == [[0], [1], [2], [3]]


def test_a_rank_without_pairs_has_no_micro_batches() -> None:
    assert micro_batches(with_eos((3, 3)), np.array([], dtype=np.int64), 10) == []


def test_little_of_the_paper_s_batches_is_padding() -> None:
    pairs = like_wmt(40_000)
    plan = plan_epoch(pairs, batch_tokens=25_000, seed=1, epoch=0)
    real = padded = 0
    for index in range(len(plan)):
        for part in micro_batches(pairs, plan.update(index), 8_192):
            for side in (pairs.src_lengths, pairs.tgt_lengths):
                real += int((side[part] + 1).sum())
                padded += len(part) * int(side[part].max() + 1)
    assert real == int((pairs.src_lengths + pairs.tgt_lengths + 2).sum())
    assert 1 - real / padded < 0.08  # 6.6 % with these lengths


# ---------------------------------------------------------------------------- tensors


def test_collate_makes_the_tensors_of_two_pairs() -> None:
    pairs = TextPairs([([7, 8, 9], [11]), ([5], [12, 13, 14])])
    batch = collate(pairs, np.array([0, 1]))
    assert batch.src.tolist() == [[7, 8, 9, EOS], [5, EOS, PAD, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 11, PAD, PAD], [BOS, 12, 13, 14]]
    assert batch.tgt_out.tolist() == [[11, EOS, PAD, PAD], [12, 13, 14, EOS]]
    assert batch.target_positions.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.targets.tolist() == [11, EOS, 12, 13, 14, EOS]
    assert batch.num_tokens == 6
    assert {tensor.dtype for tensor in vars(batch).values()} == {torch.int64}


def test_collate_keeps_the_order_that_it_is_given() -> None:
    pairs = TextPairs([([7], [8]), ([9, 10], [11])])
    assert collate(pairs, np.array([1, 0])).src.tolist() == [[9, 10, EOS], [7, EOS, PAD]]


def test_pad_sources_closes_and_pads_lines_that_are_translated() -> None:
    assert pad_sources([[7, 8], [], [9]]).tolist() == [[7, 8, EOS], [EOS, PAD, PAD], [9, EOS, PAD]]


def test_a_batch_moves_as_a_whole() -> None:
    batch = collate(TextPairs([([7], [8])]), np.array([0])).to(torch.device("meta"))
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
