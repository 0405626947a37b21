"""Stages: the order of each is a function of seed, stage and epoch, and ends at its update."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pairs import like_wmt
from prepare_job import job_of, write

from nmt.config.recipes import TrainingStage
from nmt.data import epochs
from nmt.data.epochs import Epochs
from nmt.data.folder import DataFolder
from nmt.data.stages import Stages, corpus_names, stage_seed
from nmt.data.updates import BatchPartition, Position, Update, updates_from
from nmt.errors import UsageError

PAIRS = like_wmt(500)
FIRST, SECOND, LAST = [(300, 1.0), (200, 0.0)], [(300, 0.0), (200, 2.0)], [(300, 1.0), (200, 1.0)]
STAGES = Stages(ends=(10, 13), shares=(FIRST, SECOND, LAST))


def stream(position: Position, done: int) -> list[Update]:
    """Return the updates up to the 40th."""
    updates = updates_from(
        position,
        PAIRS,
        BatchPartition(micro_batch_tokens=400),
        batch_tokens=1500,
        seed=1,
        stages=STAGES,
        done=done,
    )
    return list(itertools.islice(updates, 40 - done))


@pytest.fixture(scope="module")
def whole() -> list[Update]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(epochs, "POOL_PAIRS", 100)
        return stream(Position(), 0)


def test_a_stage_visits_its_corpora_and_ends_at_its_update(whole: list[Update]) -> None:
    visited = [set(update.pairs.tolist()) for update in whole]
    clean, other = set(range(300)), set(range(300, 500))
    assert all(pairs <= clean for pairs in visited[:10])
    assert all(pairs <= other for pairs in visited[10:13])
    assert [update.following.stage for update in whole] == [0] * 9 + [1] * 3 + [2] * 28
    assert whole[9].following == Position(stage=1)
    assert whole[12].following == Position(stage=2)
    third = Counter(
        pair for update in whole[13:] if update.epoch <= 1 for pair in update.pairs.tolist()
    )
    assert third == Counter(range(500))


def test_stages_go_on_from_any_update(whole: list[Update], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "POOL_PAIRS", 100)
    for done in (9, 10, 13):
        again = stream(whole[done - 1].following, done)
        assert [(u.pairs.tolist(), u.following, u.epoch) for u in again] == [
            (u.pairs.tolist(), u.following, u.epoch) for u in whole[done:]
        ]


def test_stages_with_the_same_weights_have_other_orders() -> None:
    orders = [
        Epochs(LAST, seed=stage_seed(seed, stage)).pool(0, 0).tolist()
        for seed, stage in ((1, 0), (1, 1), (1, 2), (2, 1))
    ]
    assert all(one != other for one, other in itertools.combinations(orders, 2))
    assert orders[0] == Epochs(LAST, seed=1).pool(0, 0).tolist()  # as without stages


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    """Three corpora, two of which have the same name in different folders."""
    root = tmp_path_factory.mktemp("stages")
    for name in ("a", "b"):
        (root / name).mkdir()
    lines = [(f"line {n}", f"Zeile {n}") for n in range(30)]
    texts = [
        write(root / "a", "news", lines[:5]),
        write(root / "b", "news", lines[5:15]),
        write(root, "clean", lines[15:]),
    ]
    return job_of(root, *texts, weight=(f"{texts[2]}=3",), vocab_size=300).prepare()


def test_a_corpus_is_named_by_the_end_of_its_prefix(data: DataFolder) -> None:
    first, second, third = corpus_names(data)
    assert Path(first).parts[-2:] == ("a", "news")
    assert Path(second).parts[-2:] == ("b", "news")
    assert third == "clean"
    stages = TrainingStage(7, {"clean": 0.5, second: 2.0}), TrainingStage(0, {first: 0.0})
    found = Stages.of_recipe(data, stages)
    assert found == Stages(
        (7,), ([(5, 1.0), (10, 2.0), (15, 0.5)], [(5, 0.0), (10, 1.0), (15, 3.0)]), stages
    )
    assert Stages.of_recipe(data, ()).shares == (data.train.shares,)


def test_a_weight_is_for_every_corpus_of_its_name(data: DataFolder) -> None:
    corpora = [replace(one, prefix="news") for one in data.info.train.corpora]  # as if given twice
    train = replace(data.info.train, corpora=tuple(corpora))
    joined = replace(data, info=replace(data.info, train=train))
    assert corpus_names(joined) == ["news"] * 3
    found = Stages.of_recipe(joined, [TrainingStage(7, {"news": 0.5}), TrainingStage(0, {})])
    assert found.shares == ([(5, 0.5), (10, 0.5), (15, 0.5)], [(5, 1.0), (10, 1.0), (15, 3.0)])
    with pytest.raises(UsageError, match=r"named 'clean'; .*data has news$"):
        Stages.of_recipe(joined, [TrainingStage(0, {"clean": 1})])


def test_weights_that_fit_no_corpus_or_leave_none_are_refused(data: DataFolder) -> None:
    for weights, message in (
        ({"cleen": 1}, "stage 2: .*'cleen'; .*'clean'.*, clean$"),
        ({"news": 1}, "stage 2: .*'news'.*; .*data has /.*a/news, "),
        (dict.fromkeys(corpus_names(data), 0.01), r"stage 2 .*weights"),
    ):
        with pytest.raises(UsageError, match=message):
            Stages.of_recipe(data, [TrainingStage(3, {}), TrainingStage(0, weights)])
