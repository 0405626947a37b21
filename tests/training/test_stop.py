"""Being asked to stop: by the clock, by signals; that training answers is in `test_resume.py`."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn
from toy_training import (
    FP32,
    assert_same_run,
    newest_state,
    nmt,
    recipe,
    settings_of,
    status,
    train,
    validated_last,
)

from nmt.errors import Stopped, UsageError
from nmt.search import beam_search as decode
from nmt.training import loss, trainer
from nmt.training.launch import launch
from nmt.training.optimizer import Optimizer
from nmt.training.stop import StopRequest, parse_time_limit
from nmt.training.update import UpdateRunner
from nmt.values import Value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("0.5", 30), ("1:30", 5400), ("1:30:15", 5415), ("120:00:00", 432_000)],
)
def test_a_time_limit_is_minutes_or_a_clock(text: str, seconds: int) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "0", "-5", "nan", "inf", "1:60", "1:5", "0:00", "1:00:60", "1:2:3:4", "1h"]
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
    with signalled.listening():
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
    with request.listening():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert request.reason == "SIGINT"
        now = 2.0
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stop_is_answered_at_once_while_nothing_needs_saving() -> None:
    for deadline, late in ((math.inf, "SIGUSR1"), (time.monotonic(), "time limit")):
        request = StopRequest(deadline)
        with request.listening(), pytest.raises(KeyboardInterrupt), request.at_once():
            if late == "SIGUSR1":
                os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(10)  # no more than a moment of it
        assert request.reason == late
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with (request := StopRequest()).listening():
        with request.at_once():
            pass
        os.kill(os.getpid(), signal.SIGUSR1)  # from here on it is noted
    assert request()


def without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run believe that its model is compiled."""
    monkeypatch.setattr(nn.Module, "compile", lambda *_, **__: None)
    monkeypatch.setattr(loss, "_compiled", lambda: loss._of_chunk)


@pytest.mark.parametrize(
    ("module", "function"),
    [(trainer, "fitting_tokens"), (UpdateRunner, "_backward")],
    ids=["trying what fits", "the first update"],
)
def test_a_stop_while_the_model_is_compiled_is_answered_at_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, function: str
) -> None:
    without_compiling(monkeypatch)
    run = tmp_path / "run"

    def compile_for_long(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, function, compile_for_long)
        train(data, run, **FP32, compile=True)
    assert status(run) == {"status": "stopped", "update": 0, "reason": "interrupted (SIGTERM)"}
    train(data, run, **FP32, compile=True)
    assert status(run)["status"] == "finished"


@pytest.mark.parametrize(
    ("module", "function", "update"),
    [(Optimizer, "step", 1), (decode, "top_tokens", 7)],
    ids=["between updates", "in beam search"],
)
def test_a_run_stops_at_its_time_limit_and_goes_on_bit_for_bit(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Callable[..., Path],
    module: object,
    function: str,
    update: int,
) -> None:
    values: dict[str, Value] = {**FP32, "validate_bleu": True}
    run, deadline, calls = tmp_path / "run", time.monotonic() + 1_000_000, 0
    plain = getattr(module, function)

    def let_time_pass(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        patch.setattr(time, "monotonic", lambda: deadline)
        return plain(*arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(Stopped, match=r"\(time limit\)") as told:
        patch.setattr(module, function, let_time_pass)
        launch(recipe(**values), data, run, deadline=deadline)
    assert calls == 1  # no more updates or steps were done
    assert told.value.exit_status == 75
    assert status(run) == {"status": "stopped", "update": update, "reason": "time limit"}
    assert newest_state(run)[0]["progress"]["update"] == update
    assert validated_last(run) == 0
    train(data, run, **values)
    assert_same_run(run, undisturbed(**values))


def test_the_command_counts_from_its_start(data: Path, tmp_path: Path) -> None:
    settings = settings_of(max_updates=1_000_000)
    command: list[str | Path] = [
        "train",
        data,
        "--out",
        tmp_path / "run",
        *settings,
        "--time-limit",
    ]
    refused = nmt(*command, "soon")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("nmt: error: --time-limit 'soon' is not a duration")
    assert not (tmp_path / "run").exists()
    done = nmt(*command, "0:00:01")
    assert done.returncode == 75
    assert done.stderr.splitlines()[-1].endswith(
        "(time limit), everything saved; run the same command again to resume"
    )
    assert status(tmp_path / "run")["reason"] == "time limit"
