"""A run that is asked to stop, by a signal or the clock, and goes on as if it had not been.

What happens when a request comes at any other place, `test_mishaps.py` has.
"""

import os
import signal
import time

import pytest
from mishaps import signal_after
from toy_training import (
    FP32,
    Toy,
    assert_same_run,
    assert_same_state,
    metrics,
    newest_state,
    status,
)

from nmt.config.fields import Value
from nmt.system.program import handling_signals
from nmt.training.stop_request import StopRequest

# --- requests


def test_the_deadline_stops_and_a_signal_comes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    request, signalled = StopRequest(100.0), StopRequest(100.0)
    before = signal.getsignal(signal.SIGUSR1)
    with handling_signals(signalled.note):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) == before
    now = 99.0
    assert not request()
    now = 100.0
    assert request()
    assert request.reason == "time limit"
    assert signalled()
    assert signalled.reason == "SIGUSR1"


def test_ctrl_c_that_torchrun_passes_on_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_end_of_a_terminal_is_no_stop_under_nohup(toy: Toy) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signal_after(toy.patch, 3, signal.SIGHUP)
        run = toy.train(max_updates=5)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert status(run)["status"] == "finished"


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
