"""Augmentation: which pairs change, that they are cut as in `prepare`, and that draws repeat."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pairs import sentences
from prepare_job import job_of, write

from nmt.config.training_config import AugmentConfig
from nmt.data.augment import augment_by
from nmt.data.folder import DataFolder
from nmt.data.shards import TokenRows
from nmt.data.subword_dropout import SubwordDropout
from nmt.data.updates import BatchPartition, Position, Update, updates_from
from nmt.data.vocabulary import PAD_ID

WORDS = ["small", "house", "blue", "forest", "sings", "river", "stone", "old"]
LINES = [
    (f"the {a} {b} stands, {n} times.", f"das {b} {a} steht {n}-mal da.")
    for n, (a, b) in enumerate(itertools.product(WORDS, repeat=2))
]
TAG = "<2de>"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """Two corpora in shards with text: one with a tag, and one that lacks some lines."""
    root = tmp_path_factory.mktemp("augment")
    one = write(root, "one", LINES[:32])
    other = write(root, "other", [*LINES[32:40], ("same", "same"), *LINES[40:]])
    options = {"tag": (f"{one}={TAG}",), "moses_tokenize": True, "vocab_size": 400}
    return job_of(root, one, other, keep_text=True, **options).prepare()


EVERYTHING = np.arange(len(LINES))


def augmented(
    data: DataFolder,
    shares: AugmentConfig,
    *,
    pairs: NDArray[np.int64] = EVERYTHING,
    epoch: int = 0,
) -> tuple[TokenRows, TokenRows]:
    augment = augment_by(data, shares)
    assert augment is not None
    return augment(pairs, *data.train.rows(pairs), 1, epoch)


def lines(data: DataFolder, rows: TokenRows) -> list[str]:
    return data.src_vocabulary.decode(rows.lists())


def test_changed_pairs_keep_tag_and_moses_rules(data: DataFolder) -> None:
    src, tgt = augmented(data, AugmentConfig(upper_case=1.0))
    assert lines(data, src) == [
        f"{TAG} {line.upper()}" if n < 32 else line.upper() for n, (line, _) in enumerate(LINES)
    ]
    assert lines(data, tgt) == [line.upper() for _, line in LINES]


def test_only_the_share_of_pairs_changes_and_other_ones_in_each_epoch(data: DataFolder) -> None:
    stored = data.train.rows(EVERYTHING)[0].lists()

    def changed(epoch: int) -> set[int]:
        found = augmented(data, AugmentConfig(title_case=0.5), epoch=epoch)[0].lists()
        return {n for n in EVERYTHING.tolist() if found[n] != stored[n]}

    first, second = changed(0), changed(1)
    assert first == changed(0)
    assert all(16 < len(one) < 48 for one in (first, second, first ^ second))


def test_a_pair_is_in_upper_or_in_title_case(data: DataFolder) -> None:
    src, _ = augmented(data, AugmentConfig(upper_case=0.5, title_case=0.5))
    found = [line.removeprefix(f"{TAG} ") for line in lines(data, src)]
    originals = [line for line, _ in LINES]
    upper = [line == old.upper() for line, old in zip(found, originals, strict=True)]
    title = [
        line == " ".join(word[:1].upper() + word[1:] for word in old.split())
        for line, old in zip(found, originals, strict=True)
    ]
    assert all(one != other for one, other in zip(upper, title, strict=True))
    assert any(upper) and any(title)


def test_only_the_next_line_of_the_same_corpus_is_merged(data: DataFolder) -> None:
    src, tgt = augmented(data, AugmentConfig(merged=1.0))
    ends = {31, 39, 63}  # of a corpus, before a line that was dropped, of all
    for n, (one, other) in enumerate(zip(lines(data, src), lines(data, tgt), strict=True)):
        pairs = LINES[n : n + 1 if n in ends else n + 2]
        assert one.removeprefix(f"{TAG} ") == " ".join(line for line, _ in pairs)
        assert other == " ".join(line for _, line in pairs)


def test_a_pair_that_gets_too_long_stays(data: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(data.info.train.src.longest, data.info.train.tgt.longest)
    monkeypatch.setattr(type(data.info), "max_length", longest)
    found = augmented(data, AugmentConfig(merged=1.0))
    for side, stored in zip(found, data.train.rows(EVERYTHING), strict=True):
        assert side.lists() == stored.lists()


def test_a_source_that_becomes_blank_stays_as_it_is(tmp_path: Path) -> None:
    train = write(tmp_path, "train", [("?", "was"), *LINES])
    found = job_of(tmp_path, train, keep=("symbols",), keep_text=True).prepare()
    src, _ = augmented(found, AugmentConfig(drop_punctuation=1.0), pairs=np.array([0, 1]))
    assert lines(found, src)[0] == "?"
    assert lines(found, src)[1] != LINES[0][0]


def sources(update: Update) -> list[list[int]]:
    """The sources of an update's pairs, without those of padding, in the order of their tokens."""
    rows = (row for batch in update.batches for row in sentences(batch.src))
    return sorted(row for row in rows if row[0] != PAD_ID)


def test_a_stream_draws_the_same_for_any_ranks_and_from_anywhere(data: DataFolder) -> None:
    augment = augment_by(data, AugmentConfig(typos=0.5, merged=0.3, placeholders=0.3))
    dropout = SubwordDropout(data.src_vocabulary, 0.1)

    def updates(position: Position, rank: int = 0, ranks: int = 1) -> list[Update]:
        stream = updates_from(
            position,
            data.train,
            BatchPartition(micro_batch_tokens=1000, rank=rank, world_size=ranks),
            batch_tokens=400,
            seed=1,
            augment=augment,
            dropouts=(dropout, dropout),
        )
        return list(itertools.islice(stream, 8))

    whole = updates(Position())
    assert max(update.following.epoch for update in whole) > 0
    for at in (1, 5):
        again = updates(whole[at - 1].following)
        assert [*map(sources, again[:3])] == [*map(sources, whole[at : at + 3])]
    shares_of_ranks = [updates(Position(), rank, 2) for rank in range(2)]
    for update, *parts in zip(whole, *shares_of_ranks, strict=True):
        assert sorted(itertools.chain(*map(sources, parts))) == sources(update)
        assert {part.tgt_tokens for part in parts} == {update.tgt_tokens}
