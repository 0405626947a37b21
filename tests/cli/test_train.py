"""Which preset and which values `nmt train` takes, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Nmt
from toy_training import recipe

from nmt.config.recipes import Recipe
from nmt.runs.run_folder import RunFolder
from nmt.training import train as train_module


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that `train` was given. Nothing is trained."""
    recipes: list[Recipe] = []
    monkeypatch.setattr(train_module, "train", lambda one, *_, **__: recipes.append(one))
    return recipes


def test_without_a_preset_one_that_fits_is_taken_and_named(
    nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe]
) -> None:
    answer = nmt("train", data, "--out", tmp_path / "run", "--set", "dropout=0.2")
    assert [one.preset for one in trained] == ["transformer_low_resource"]
    assert answer.status == 0
    assert answer.stderr == (
        "nmt: no --model given: taking transformer_low_resource, because the data has only 300 "
        "pairs\n"
    )


def test_a_run_and_its_configuration_bring_their_preset(
    nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe]
) -> None:
    run = RunFolder(tmp_path / "run")
    run.create()
    run.write_config(recipe(), "text", ("", ""), ranks=1, data_path=data)
    assert nmt("train", data, "--out", run.path).stderr == ""  # the run goes on
    assert [one.preset for one in trained] == ["transformer_tiny"]
    nmt("train", data, "--out", tmp_path / "again", "--config", run.path / "config.toml")
    assert trained[1:] == [recipe()]


def test_what_is_given_goes_before_a_file(
    nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe]
) -> None:
    (tmp_path / "own.toml").write_text("[training]\nmax_updates = 50\nlog_every = 20\nseed = 3\n")
    given = ("--config", tmp_path / "own.toml", "--set", "log_every=10", "--max-updates", "7")
    nmt("train", data, "--out", tmp_path / "run", "--model", "transformer_tiny", *given)
    values = trained[0].training
    assert (values.max_updates, values.log_every, values.seed) == (7, 10, 3)
