"""How an update is cut over ranks and into micro-batches, and what their tensors hold."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pairs import Lengths, TextPairs, batch_of, like_wmt, sentences, with_eos

from nmt.data import batches
from nmt.data.epochs import Epochs, plan_pool
from nmt.data.shards import TokenRows

PAD, BOS, EOS = 0, 2, 3


def updates(pairs: Lengths, *, batch_tokens: int) -> list[NDArray[np.int64]]:
    """Return the updates of an epoch."""
    epochs = Epochs(pairs.shares, seed=1)
    return plan_pool(pairs, epochs, batch_tokens=batch_tokens, epoch=0, pool=0)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_ranks_share_an_update_longest_first_with_equal_work(ranks: int) -> None:
    pairs = like_wmt(2_000)
    work = pairs.src**2 + pairs.tgt**2 + pairs.src * pairs.tgt  # of attention
    attention = []
    for update in updates(pairs, batch_tokens=10_000):
        shares = [
            update[share]
            for share in batches.split_update(*pairs.lengths(update), world_size=ranks)
        ]
        assert sorted(np.concatenate(shares).tolist()) == sorted(update.tolist())
        for share in shares:
            longer = np.maximum(pairs.src[share], pairs.tgt[share])
            assert longer.tolist() == sorted(longer.tolist(), reverse=True)
        for side in (pairs.src, pairs.tgt):
            sums = [int(side[share].sum()) + len(share) for share in shares]
            assert max(sums) - min(sums) <= 50
        attention.append(max(work[share].sum() for share in shares) / work[update].sum() * ranks)
    assert np.mean(attention) < 1.2


def test_more_ranks_than_pairs_leave_some_without() -> None:
    shares = batches.split_update(*with_eos((5, 5), (5, 5)).lengths(np.array([1, 0])), world_size=5)
    assert sorted(len(share) for share in shares) == [0, 0, 0, 1, 1]
    nothing = np.zeros(0, np.int32)
    assert batches.micro_batches(nothing, nothing, 10) == []


@pytest.mark.parametrize(
    ("lengths", "budget", "parts"),
    [
        # Sums of either side: 4 + 1 and 3 + 5 are within 10, and with 9 no more. 9 + 2 is above it;
        # 2 + 2 + 5 and 2 + 2 + 2 are not.
        ([(4, 3), (1, 5), (9, 2), (2, 2), (2, 2), (5, 2)], 10, [[0, 1], [2], [3, 4, 5]]),
        # 10 of these pairs fit at once, so it takes three parts; 10, 10 and 1 would be uneven.
        ([(10, 10)] * 21, 105, [[*range(7)], [*range(7, 14)], [*range(14, 21)]]),
        # A pair longer than a micro-batch stands alone.
        ([(3, 3), (40, 2), (3, 3), (2, 40)], 10, [[0], [1], [2], [3]]),
    ],
)
def test_micro_batches_are_cut_by_hand_as_expected(
    lengths: list[tuple[int, int]], budget: int, parts: list[list[int]]
) -> None:
    pairs = with_eos(*lengths)
    found = batches.micro_batches(*pairs.lengths(np.arange(len(pairs))), budget)
    assert [part.tolist() for part in found] == parts


def attention_work(pairs: Lengths, bounds: list[int], of_position: int, of_group: int) -> int:
    """Return the work of attention on groups, by the formula, in pairs of query and key."""
    total = 0
    for a, b in pairwise([0, *bounds, len(pairs)]):
        src, tgt = int(pairs.src[a:b].max()) + 1, int(pairs.tgt[a:b].max()) + 1
        total += (b - a) * (src * src + tgt * tgt + src * tgt + of_position * (src + tgt))
        total += of_group
    return total


@pytest.mark.parametrize(
    ("on_gpu", "longer", "work"), [(False, 1, (20, 10_000)), (True, 10, (80, 1_500_000))]
)
@pytest.mark.parametrize("seed", range(10))
def test_groups_of_least_work(seed: int, on_gpu: bool, longer: int, work: tuple[int, int]) -> None:
    random = np.random.default_rng(seed)
    drawn = longer * random.choice([3, 4, 9, 10, 24, 60], (2, 9)).astype(np.int32)
    order = batches.longest_first(*drawn)
    pairs = Lengths(*(side[order] for side in drawn))
    longest = np.maximum(pairs.src, pairs.tgt)
    edges = [at for at in range(1, 9) if longest[at] != longest[at - 1]]
    choices = [list(cuts) for count in range(len(edges) + 1) for cuts in combinations(edges, count)]
    least = min(attention_work(pairs, cuts, *work) for cuts in choices)
    found = batches.group_bounds(pairs.src, pairs.tgt, on_gpu=on_gpu)
    assert attention_work(pairs, found, *work) == least


def test_both_sides_of_a_batch_have_the_same_groups() -> None:
    lengths = [(90, 80), (80, 85), (3, 2), (1, 3)]
    pairs = TextPairs([([5] * (src - 1), [6] * (tgt - 1)) for src, tgt in lengths])
    batch = batches.collate(*pairs.rows(np.arange(4)))
    src, tgt = batch.src.groups, batch.tgt_in.groups
    assert [(group.sentences, group.tokens, group.longest) for group in src] == [
        (slice(0, 2), slice(0, 170), 90),
        (slice(2, 4), slice(170, 174), 3),
    ]
    assert [(group.sentences, group.tokens, group.longest) for group in tgt] == [
        (slice(0, 2), slice(0, 165), 85),
        (slice(2, 4), slice(165, 170), 3),
    ]


def test_collate_makes_the_tensors_of_two_pairs() -> None:
    pairs = TextPairs([([7, 8, 9], [11]), ([5], [12, 13, 14])])
    batch = batches.collate(*pairs.rows(np.array([0, 1])))
    assert batch.src.tokens.tolist() == [7, 8, 9, EOS, 5, EOS]
    assert batch.src.sentences.tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.src.positions.tolist() == [0, 1, 2, 3, 0, 1]
    assert batch.src.starts.tolist() == [0, 4, 6]
    assert batch.src.longest == 4
    assert batch.tgt_in.tokens.tolist() == [BOS, 11, BOS, 12, 13, 14]
    assert batch.tgt_in.sentences.tolist() == [0, 0, 1, 1, 1, 1]
    assert batch.tgt_in.positions.tolist() == [0, 1, 0, 1, 2, 3]
    assert batch.tgt_in.starts.tolist() == [0, 2, 6]
    assert batch.tgt_in.longest == 4
    assert batch.targets.tolist() == [11, EOS, 12, 13, 14, EOS]
    assert batch.num_tokens == 6
    assert batch.padded_tokens == 12


def test_pack_sources_closes_lines_that_are_translated() -> None:
    assert sentences(batches.pack_sources([[7, 8], [], [9]])) == [[7, 8, EOS], [EOS], [9, EOS]]


@pytest.mark.parametrize(
    "shape", [batches.FixedShape(300, 420, 12, 1), batches.FixedShape(96, 80, 30, 1)]
)
def test_a_fixed_shape_is_reached_by_short_pairs_of_padding(shape: batches.FixedShape) -> None:
    random = np.random.default_rng(shape.src)
    filled = 0
    for _ in range(50):
        src = [[7] * n for n in random.integers(0, 150, random.integers(1, 5))]
        tgt = [row[: len(row) // 2] for row in src]
        lengths = (np.array([len(row) for row in side], np.int32) for side in (src, tgt))
        if not shape.fits(*lengths):
            continue
        filled += 1
        batch, plain, count = batch_of(src, tgt, shape), batch_of(src, tgt), len(src)
        sides = (batch.src, plain.src, shape.src), (batch.tgt_in, plain.tgt_in, shape.tgt)
        for found, own, tokens in sides:
            assert len(found.tokens) == tokens
            assert found.longest == min(n for n in (64, 128, 256) if n > max(map(len, src)))
            assert sentences(found)[:count] == sentences(own)
            assert len(sentences(found)) == shape.sentences
            assert {token for row in sentences(found)[count:] for token in row} <= {PAD}
        padding = [list(map(len, sentences(side)[count:])) for side in (batch.src, batch.tgt_in)]
        assert max(map(max, padding)) <= 64
        assert all((a > 0) == (b > 0) for a, b in zip(*padding, strict=True))
        assert batch.targets.tolist() == plain.targets.tolist()
    assert filled > 5


def test_what_a_fixed_shape_has_no_room_for_does_not_fit() -> None:
    shape = batches.FixedShape(100, 100, 4, 1)

    def fits(*lengths: tuple[int, int]) -> bool:
        pairs = with_eos(*lengths)
        return shape.fits(pairs.src, pairs.tgt)

    assert fits((100, 100))
    assert fits((98, 30))  # two pairs of padding
    assert not fits((99, 30))  # of which one would have no source
    assert not fits((101, 50))
    assert fits(*[(20, 20)] * 3)
    assert not fits(*[(20, 20)] * 4)  # no sentence is left for padding


@pytest.mark.parametrize("longest", [1, 2, 150])
def test_sides_reach_multiples_of_128_tokens_by_pairs_of_padding(longest: int) -> None:
    random = np.random.default_rng(longest)
    for _ in range(20):
        count = int(random.integers(1, 40)) + 2000 // longest
        src, tgt = ([[7] * n for n in sorted(random.integers(0, longest, count))] for _ in range(2))
        rows = (TokenRows.from_lists(src, token_bytes=2), TokenRows.from_lists(tgt, token_bytes=2))
        batch, plain = batches.collate(*rows, in_multiples=True), batch_of(src, tgt)
        padding = []
        for found, own in ((batch.src, plain.src), (batch.tgt_in, plain.tgt_in)):
            assert len(found.tokens) % 128 == 0
            assert len(found.tokens) - len(own.tokens) < 256
            assert sentences(found)[:count] == sentences(own)
            assert {token for row in sentences(found)[count:] for token in row} <= {PAD}
            padding.append([len(row) for row in sentences(found)[count:]])
            if longest > 2:  # attention in the last group takes no more
                assert found.groups[-1].longest == own.groups[-1].longest
        assert len(padding[0]) == len(padding[1])
        assert all(min(lengths, default=1) > 0 for lengths in padding)
        assert batch.targets.tolist() == plain.targets.tolist()


@pytest.mark.parametrize("ranks", [1, 8])
def test_a_fixed_shape_adds_less_than_3_percent(ranks: int) -> None:
    pairs = like_wmt(60_000)
    plan = updates(pairs, batch_tokens=25_000)
    lengths = [pairs.lengths(update) for update in plan]
    shape = batches.FixedShape.for_updates(
        lengths[:20], batches.SplitBounds(ranks, 25_000, longest=250)
    )
    real = sum(int(src.sum() + tgt.sum()) + 2 * len(src) for src, tgt in lengths[20:60])
    shares = [
        tuple(side[share] for side in update)
        for update in lengths[20:60]
        for share in batches.split_update(*update, world_size=ranks)
    ]
    assert shape.parts == 1
    assert np.mean([shape.fits(*share) for share in shares]) > 0.98
    assert 0 < 1 - real / (len(shares) * (shape.src + shape.tgt)) < 0.03


def test_a_batch_moves_as_a_whole() -> None:
    batch = batches.collate(*TextPairs([([7], [8])]).rows(np.array([0]))).to(torch.device("meta"))
    tensors = [t for side in (batch.src, batch.tgt_in) for t in vars(side).values()]
    devices = {t.device.type for t in [*tensors, batch.targets] if isinstance(t, torch.Tensor)}
    assert isinstance(batch, batches.Batch)
    assert devices == {"meta"}


def test_validation_takes_all_pairs_once() -> None:
    pairs = TextPairs([([4 + n] * (1 + n % 5), [4 + n] * (1 + n % 7)) for n in range(40)])
    parts = batches.parts_by_length(*pairs.lengths(np.arange(len(pairs))), 30)
    assert sorted(np.concatenate(parts).tolist()) == list(range(40))
    for part in parts:
        assert max(lengths.sum() + len(part) for lengths in pairs.lengths(part)) <= 30
