"""A run that is asked to stop, by a signal or the clock, and goes on as if it had not been.

What nobody asks for, a run that is killed or damaged, is in `test_faults.py`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt
from mishaps import pretend_to_compile, signal_after
from torch import nn
from toy_training import (
    FP32,
    Toy,
    assert_same_run,
    assert_same_state,
    metrics,
    newest_state,
    recipe,
    status,
    validated_last,
)

from nmt.config.fields import Value
from nmt.errors import EXIT_STOPPED, Stopped, UsageError
from nmt.jobs.deadline import parse_time_limit
from nmt.models.model_file import ModelReader
from nmt.runs.run_folder import RunFolder
from nmt.search import beam_search
from nmt.system.program import handling_signals
from nmt.training import stop_request, trainer, validation
from nmt.training import update as update_module
from nmt.training.stop_request import StopRequest
from nmt.training.train import train as train_run
from nmt.training.train_command import TrainCommand
from nmt.training.update import TrainStep
from nmt.training.validation import Validator

# --- requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90", 5400), ("0.5", 30), ("1:30", 5400), ("1:30:15", 5415), ("120:00:00", 432_000)),
        *(("2h", 7200), ("1h30m15s", 5415), ("45s", 45)),
    ],
)
def test_a_time_limit_is_minutes_or_a_clock(text: str, seconds: int) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "0", "-5", "nan", "inf", "1:60", "1:5", "0:00", "1:00:60", "1:2:3:4", "1d"]
)
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--time-limit .* give minutes"):
        parse_time_limit(text)


def test_the_deadline_is_a_reason_to_stop_and_a_signal_comes_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    request, signalled = StopRequest(100.0), StopRequest(100.0)
    with handling_signals(signalled.note):
        os.kill(os.getpid(), signal.SIGUSR1)
    now = 99.0
    assert not request()
    now = 100.0
    assert request()
    assert request.reason == "time limit"
    assert signalled()
    assert signalled.reason == "SIGUSR1"


def test_ctrl_c_that_torchrun_passes_on_is_still_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    request = StopRequest()
    with handling_signals(request.note):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert request.reason == "SIGINT"
        now = 2.0
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stop_is_answered_at_once_while_nothing_needs_saving() -> None:
    request = StopRequest()
    with handling_signals(request.note), pytest.raises(KeyboardInterrupt), request.at_once():
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(10)  # no more than a moment of it
    assert request.reason == "SIGUSR1"
    request = StopRequest()
    with handling_signals(request.note):
        with request.at_once():
            pass
        os.kill(os.getpid(), signal.SIGUSR1)  # from here on it is noted
    assert request()


# --- what a run makes of them


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_every_signal_stops_with_everything_saved(toy: Toy, number: signal.Signals) -> None:
    run, before = toy.folder / "run", signal.getsignal(number)
    signal_after(toy.patch, 3, number)
    with pytest.raises(Stopped, match=f"update 3 \\({number.name}\\)"):
        toy.train()
    assert Stopped.exit_status == 75
    assert status(run) == {"status": "stopped", "update": 3, "reason": number.name}
    assert newest_state(run)[0]["progress"]["update"] == 3
    assert ModelReader(run / "last.safetensors").card.update == 3
    assert signal.getsignal(number) == before


def test_the_end_of_a_terminal_is_no_stop_under_nohup(toy: Toy) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signal_after(toy.patch, 3, signal.SIGHUP)
        run = toy.train(max_updates=5)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert status(run)["status"] == "finished"


def test_the_command_stops_at_its_time_limit(nmt: Nmt, toy: Toy) -> None:
    config, run = toy.train("other", max_updates=1) / "config.toml", toy.folder / "run"
    words = "train", toy.data, "--out", run, "--config", config, "--max-updates", "1000000"
    refused = nmt(*words, "--time-limit", "soon")
    assert refused.status == 2 and "--time-limit 'soon'" in refused.stderr
    assert not run.exists()
    assert nmt(*words, "--time-limit", "0.005").status == EXIT_STOPPED
    assert status(run)["reason"] == "time limit"


@pytest.mark.parametrize(
    ("module", "function"),
    [(trainer, "fitting_tokens"), (TrainStep, "_backward")],
    ids=["trying what fits", "the first update"],
)
def test_a_stop_while_the_model_is_compiled_is_answered_at_once(
    toy: Toy, module: object, function: str
) -> None:
    # The run only believes that its model is compiled.
    pretend_to_compile(toy.patch)
    toy.patch.setattr(nn.Module, "compile", lambda *_, **__: None)
    run = toy.folder / "run"

    def compile_for_long(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    with toy.patch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, function, compile_for_long)
        toy.train(**FP32, compile=True)
    assert status(run) == {"status": "stopped", "update": 0, "reason": "interrupted (SIGTERM)"}
    toy.train(**FP32, compile=True)
    assert status(run)["status"] == "finished"


@pytest.mark.parametrize(
    ("module", "function"),
    [(validation, "losses_of"), (TrainStep, "run")],
    ids=["in validation", "after it"],
)
def test_ctrl_c_twice_does_not_wait_and_tells_what_is_saved(
    toy: Toy, module: object, function: str
) -> None:
    # Update 2 is saved, update 4 validated.
    run, plain = toy.train(max_updates=2), getattr(module, function)

    def hurried(*arguments: object, **options: object) -> object:
        if function == "run" and validated_last(run) < 4:
            return plain(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it waits")

    toy.patch.setattr(stop_request, "_SAME_CTRL_C", -1.0)  # not one that torchrun passes on
    toy.patch.setattr(module, function, hurried)
    with pytest.raises(KeyboardInterrupt):
        toy.train(validate_every=4)
    found = status(run)
    assert (found["status"], found["update"]) == ("stopped", 2)
    assert found["reason"].startswith("interrupted (SIGINT)")


# --- going on

RECURRENT: dict[str, Value] = {"preset": "rnn_attention_small", "d_hidden": 32}
GUIDED: dict[str, Value] = {"guided_alignment": 0.5, "subword_dropout": 0.1, "clip_norm": 1.0}


@pytest.mark.parametrize(
    "values",
    [
        {},
        GUIDED | {"precision": "bf16"},
        {"precision": "fp16", "freeze": "encoder.*"},
        RECURRENT,
        pytest.param(RECURRENT | {"precision": "bf16"}, marks=pytest.mark.slow),
    ],
    ids=["fp32", "guided bf16", "frozen fp16", "recurrent", "recurrent bf16"],
)
def test_a_stopped_run_goes_on_bit_for_bit(toy: Toy, values: dict[str, Value]) -> None:
    values = FP32 | {"max_updates": 20} | values
    # With dropout, in mid-epoch (seven updates each), off every cadence; then on each of them.
    for update in (4, 13, 14, 16):
        run = toy.stopped_after(update, **values)
        assert status(run) == {"status": "stopped", "update": update, "reason": "SIGTERM"}
    toy.train(**values)
    assert_same_run(run, toy.undisturbed(**values))


@pytest.mark.parametrize(
    ("module", "function", "update", "reason"),
    [
        (update_module, "losses_of", 4, "SIGTERM"),
        # Update 8 is saved and validated, so that the checkpoint is there before its metrics are.
        (validation, "losses_of", 8, "time limit"),
        (beam_search, "top_tokens", 8, "SIGTERM"),
    ],
    ids=["an update", "a batch of validation", "a step of beam search"],
)
def test_a_stop_waits_for_no_more_than_one_step_and_loses_nothing(
    toy: Toy, module: object, function: str, update: int, reason: str
) -> None:
    values = FP32 | {"validate_every": 4, "validate_metric": "bleu", "max_updates": 12}
    run, deadline, calls = toy.folder / "run", time.monotonic() + 1_000_000, 0
    plain = getattr(module, function)

    def stop_after_the_first_validation(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += validated_last(run) == 4
        if calls == 1 and reason == "SIGTERM":
            os.kill(os.getpid(), signal.SIGTERM)
        elif calls == 1:
            patch.setattr(time, "monotonic", lambda: deadline)
        return plain(*arguments, **options)

    with toy.patch.context() as patch, pytest.raises(Stopped, match=rf"{update} \({reason}\)"):
        patch.setattr(module, function, stop_after_the_first_validation)
        train_run(recipe(**values), TrainCommand(toy.data, run), deadline=deadline)
    assert calls == 1  # nothing more was begun
    assert status(run) == {"status": "stopped", "update": update, "reason": reason}
    assert newest_state(run)[0]["progress"]["update"] == update
    assert [record["update"] for record in metrics(run, "valid")] == [4]
    toy.train(**values)
    assert_same_run(run, toy.undisturbed(**values))


def test_the_figures_since_the_last_record_are_not_lost_at_a_stop(toy: Toy) -> None:
    run = toy.stopped_after(13, **FP32)  # log_every is 5
    record = metrics(run, "train")[-1]
    assert (record["update"], record["updates"]) == (13, 3)
    assert newest_state(run)[0]["progress"]["seconds"] == record["seconds"]
    toy.train(**FP32)
    found = [(record["update"], record["updates"]) for record in metrics(run, "train")]
    assert found == [(5, 5), (10, 5), (13, 3), (15, 2), (20, 5), (25, 5), (30, 5)]


def test_going_on_for_longer_is_having_asked_for_it_at_once(toy: Toy) -> None:
    whole, run = toy.undisturbed(**FP32), toy.train(**FP32 | {"max_updates": 15})
    assert status(run)["status"] == "finished"
    toy.train(**FP32)
    # Only the validation of update 15 is more.
    records = metrics(run, "valid")
    assert [record for record in records if record["update"] != 15] == metrics(whole, "valid")
    assert_same_state(run, whole)


def test_a_validation_of_the_last_update_that_is_cut_short_is_made_up_for(toy: Toy) -> None:
    values: dict[str, Value] = {**FP32, "max_updates": 10}
    plain, run = Validator.measure, toy.folder / "run"

    def stop_in_the_last(*arguments: Any) -> object:
        if validated_last(run) == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*arguments)

    with toy.patch.context() as patch, pytest.raises(Stopped, match="update 10"):
        patch.setattr(Validator, "measure", stop_in_the_last)
        toy.train(**values)
    assert [record["update"] for record in metrics(run, "valid")] == [7]
    toy.train(**values)
    assert_same_run(run, toy.undisturbed(**values))


def test_metrics_written_beyond_the_state_are_cut_back(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for kind, update in [("train", 5), ("valid", 7), ("train", 10), ("valid", 10), ("train", 15)]:
        run.record({"kind": kind, "update": update})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "upd')  # a crash in the middle of a line
    run.cut_metrics(10, validated=7)
    found = [(record["kind"], record["update"]) for record in metrics(tmp_path)]
    assert found == [("train", 5), ("valid", 7), ("train", 10)]


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"kind": "tra\xffn", "update": 6}',
        b"[" * 100_000,
        b'{"kind": "train", "update": ' + b"9" * 5_000 + b"}",
        b'{"kind": "train", "vpdate": 6}',
        b'{"kind": ["train"], "update": 6}',
        b'{"kind": "valid", "update": 6, "nll": ' + b"9" * 400 + b"}",
        b"6",
    ],
)
def test_damaged_lines_of_metrics_are_skipped(tmp_path: Path, damaged: bytes) -> None:
    run = RunFolder(tmp_path)
    run.record({"kind": "train", "update": 5})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(damaged + b"\n")
    run.record({"kind": "valid", "update": 7, "nll": 1.5})
    run.draw_curves()
    assert [record["update"] for record in run.metrics()] == [5, 7]
