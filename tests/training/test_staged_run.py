"""Runs in stages: they begin where the recipe says, are named, and resume anywhere."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from prepare_job import Job
from toy_training import Toy, assert_same_state, metrics, pairs, recipe, write_text

from nmt.config.recipes import TrainingStage
from nmt.errors import UsageError
from nmt.training.train import train as train_run
from nmt.training.train_command import TrainCommand

STAGES = (
    TrainingStage(12, {"noisy": 1.0, "clean": 0.0}),
    TrainingStage(0, {"noisy": 0.0, "clean": 2.0}),
)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of two corpora."""
    folder = tmp_path_factory.mktemp("two")
    text = pairs(320, seed=1)
    job = Job.of(
        folder / "data",
        train=tuple(
            write_text(folder, name, part)
            for name, part in (("noisy", text[:150]), ("clean", text[150:300]))
        ),
        valid=write_text(folder, "valid", text[300:]),
        vocab_size=345,
    )
    return job.prepare().path


def train(
    data: Path, out: Path, stages: tuple[TrainingStage, ...] = STAGES, max_updates: int = 24
) -> Path:
    staged = dataclasses.replace(recipe(max_updates=max_updates), stages=stages)
    train_run(staged, TrainCommand(data, out))
    return out


def test_a_run_goes_on_in_any_stage_and_names_each_where_it_begins(toy: Toy, two: Path) -> None:
    whole, run = train(two, toy.folder / "whole"), toy.folder / "run"
    for stop in (5, 12, 17, 24):
        train(two, run, max_updates=stop)
    assert_same_state(run, whole)
    second = "stage 2 of 2, to the end: noisy 0, clean 2"
    assert [record for record in metrics(run, "event") if "stage" in record] == [
        {"kind": "event", "update": 12, "stage": second}
    ]
    log = (run / "train.log").read_text()
    assert re.search("stage 1 .* 12: noisy 1, clean 0", log)
    assert f"update 12: {second}" in log
    assert ">stage 2 of 2<" in (run / "curves.svg").read_text()


def test_stages_change_what_is_learnt_and_do_not_change_in_a_run(toy: Toy, two: Path) -> None:
    run = train(two, toy.folder / "run", max_updates=14)
    plain = train(two, toy.folder / "plain", (), max_updates=14)
    losses = [metrics(one, "train")[-1]["nll"] for one in (run, plain)]
    assert losses[0] != losses[1]
    with pytest.raises(UsageError, match=r"\[\[stages\]\]"):
        train(two, run, (dataclasses.replace(STAGES[0], updates=13), STAGES[1]))


def test_an_unknown_corpus_is_told_before_a_run_begins(toy: Toy) -> None:
    with pytest.raises(UsageError, match=r"stage 1: .*'noisy'; .*train$"):
        train(toy.data, toy.folder / "run")
    assert not (toy.folder / "run").exists()
