"""Why a run ends, which option trains it for longer, and what is said of its length before."""

import re

import pytest
from toy_training import Toy, assert_same_run, metrics, recipe, status

from nmt.config.fields import Value
from nmt.config.training_config import TrainingConfig
from nmt.errors import NMTError
from nmt.runs.checkpoint import RunState
from nmt.runs.report import ValidationResult
from nmt.training import stopping_criteria
from nmt.training.stopping_criteria import ends, warnings_before
from nmt.training.validation import Validator


@pytest.mark.parametrize(
    ("values", "state", "reason", "options"),
    [
        ({}, RunState(29), "", []),
        ({}, RunState(30), "max_updates", ["--max-updates 60"]),
        ({"patience": 2}, RunState(9, bad_validations=3), ".* 2 validations", ["--set patience=5"]),
        (
            {"patience": 2},
            RunState(30, bad_validations=2),
            "max_updates",
            ["--max-updates 60", "--set patience=4"],
        ),
    ],
)
def test_a_run_ends_for_a_reason_that_an_option_takes_away(
    values: dict[str, Value], state: RunState, reason: str, options: list[str]
) -> None:
    config = recipe(**values).training
    found = ends(config, state, config.max_updates)
    assert list(found.values()) == options
    assert re.fullmatch(reason, next(iter(found), ""))
    # Each value is enough.
    assignments = [option.split()[-1].rpartition("=") for option in options]
    longer = {name or "max_updates": value for name, _, value in assignments}
    config = recipe(**values | longer).training
    assert not ends(config, state, config.max_updates)


def test_an_extra_validation_may_be_the_best_and_costs_no_patience() -> None:
    state = RunState(35, bad_validations=1, best=((2.0, 2.0, 20),))
    assert state.validated_as(3.0, 3.0, keep_best=1, is_extra=True) == RunState(
        35, validated=35, bad_validations=1, best=((2.0, 2.0, 20),)
    )
    assert state.validated_as(3.0, 3.0, keep_best=1).bad_validations == 2
    better = state.validated_as(1.0, 1.0, keep_best=1, is_extra=True)
    assert (better.best, better.bad_validations) == (((1.0, 1.0, 35),), 0)


@pytest.mark.parametrize(("loss", "update"), [(4.0, 35), (6.0, 20)])
def test_of_models_with_the_same_bleu_the_best_has_the_lower_loss(loss: float, update: int) -> None:
    state = RunState(35, bad_validations=1, best=((0.0, 5.0, 20),))
    found = state.validated_as(0.0, loss, keep_best=1)
    assert (found.best_updates, found.bad_validations) == ([update], 2)


def test_a_run_that_ended_off_its_cadence_goes_on_with_its_patience(toy: Toy) -> None:
    # After updates 3, 5, 6 and 9.
    results = iter([ValidationResult(loss, loss) for loss in (3.0, 4.0, 5.0, 6.0)])
    toy.patch.setattr(Validator, "measure", lambda *_: next(results))
    values: dict[str, Value] = {"validate_every": 3, "patience": 2}
    run = toy.train(**values, max_updates=5)
    assert status(run)["reason"] == "max_updates"
    toy.train(**values)
    assert [record["update"] for record in metrics(run, "valid")] == [3, 5, 6, 9]
    assert "2 validations" in status(run)["reason"]


def test_a_run_ends_where_its_rate_is_0_also_if_it_was_stopped_on_the_way(toy: Toy) -> None:
    # Any loss is flat, so the rate falls from update 8 on, the first that has a half.
    values: dict[str, Value] = {"schedule": "until_flat", "flat_gain": 100.0}
    values |= {"warmup_updates": 2, "validate_every": 4, "max_updates": 30, "log_every": 1}
    whole = toy.undisturbed(**values)
    assert status(whole)["reason"] == "validation is flat"
    rates = {record["update"]: record["learning_rate"] for record in metrics(whole, "train")}
    assert rates[8] > rates[9] > rates[12] > rates[13] == 0
    assert max(rates) == metrics(whole, "valid")[-1]["update"] == 13
    log = (whole / "train.log").read_text()
    assert log.count("flat (flat_gain 100): the learning rate falls to 0 at update 13") == 1
    toy.stopped_after(10, **values)
    assert_same_run(toy.train(**values), whole)


def length(**values: int) -> TrainingConfig:
    return recipe(**{"max_updates": 1_000, "warmup_updates": 100} | values).training


@pytest.mark.parametrize(
    ("values", "an_epoch", "said"),
    [
        ({}, 5, []),  # 200 epochs
        ({}, 4, ["1,000 updates .* 250 times; .* 800 "]),
        ({"patience": 3}, 4, []),
        ({"warmup_updates": 999}, 5, []),
        ({"warmup_updates": 1_000}, 5, ["warmup_updates .*1,000 .*max_updates 1,000"]),
        ({"warmup_updates": 4_000}, 5, ["warmup_updates=100, .*4,0"]),
        ({"warmup_updates": 1, "max_updates": 1}, 5, []),
    ],
)
def test_odd_lengths_are_warned_of(values: dict[str, int], an_epoch: int, said: list[str]) -> None:
    found = warnings_before(length(**values), an_epoch)
    assert len(found) == len(said)
    assert all(re.search(part, line) for part, line in zip(said, found, strict=True))


def test_it_is_warned_of_before_update_1(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    toy.patch.setattr(stopping_criteria, "MOST_EPOCHS", 0.5)

    def fail(*_: object, **__: object) -> None:
        raise NMTError("before any update")

    toy.patch.setattr("nmt.training.update.TrainStep.run", fail)
    with pytest.raises(NMTError, match="before any update"):
        toy.train(max_updates=8)
    warned = [line for line in capsys.readouterr().err.splitlines() if "nmt: warning: " in line]
    assert "warmup_updates is 10" in warned[0]
    assert "1 times" in warned[1]
