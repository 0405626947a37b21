"""A run that was stopped on request and goes on as if it had not been: bit for bit.

What nobody asks for, a run that is killed or damaged, is in `test_faults.py`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from mishaps import signal_after, stopped_after
from toy_training import (
    ENDLESS,
    FP32,
    assert_same_run,
    content,
    metrics,
    newest_state,
    nmt_command,
    settings_of,
    status,
    train,
    training_until,
    validated_last,
)

from nmt.errors import Stopped
from nmt.models.model_file import ModelReader
from nmt.runs.run_folder import RunFolder
from nmt.search import beam_search as decode
from nmt.training import stop, validation
from nmt.training.update import UpdateRunner
from nmt.values import Value

BF16: dict[str, Value] = {**FP32, "precision": "bf16", "clip_norm": 1.0}
FP16: dict[str, Value] = {**FP32, "precision": "fp16"}
FROZEN: dict[str, Value] = {**FP32, "freeze": "encoder.*"}


# --- stopped on request


@pytest.mark.parametrize(
    "values", [FP32, BF16, FP16, FROZEN], ids=["fp32", "bf16", "fp16", "frozen"]
)
def test_a_stopped_run_goes_on_bit_for_bit(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Callable[..., Path],
    values: dict[str, Value],
) -> None:
    # With dropout, in mid-epoch (seven updates each), off every cadence; then on each of them.
    for update in (4, 13, 14, 16):
        run = stopped_after(monkeypatch, update, data, tmp_path / "run", **values)
        assert status(run) == {"status": "stopped", "update": update, "reason": "SIGTERM"}
    train(data, run, **values)
    assert_same_run(run, undisturbed(**values))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_every_signal_stops_with_everything_saved(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    signal_after(monkeypatch, 3, number)
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match=f"stopped at update 3 \\({number.name}\\), everything saved"):
        train(data, run)
    assert status(run) == {"status": "stopped", "update": 3, "reason": number.name}
    assert newest_state(run)[0]["progress"]["update"] == 3
    assert ModelReader(run / "last.safetensors").card.update == 3
    assert signal.getsignal(number) == before


def test_the_end_of_a_terminal_is_no_stop_under_nohup(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        signal_after(monkeypatch, 3, signal.SIGHUP)
        run = train(data, tmp_path / "run", max_updates=5)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert status(run)["status"] == "finished"


def test_the_figures_since_the_last_record_are_not_lost_at_a_stop(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped_after(monkeypatch, 13, data, tmp_path / "run", **FP32)  # log_every is 5
    record = metrics(run, "train")[-1]
    assert (record["update"], record["updates"]) == (13, 3)
    assert newest_state(run)[0]["progress"]["seconds"] == record["seconds"]
    train(data, run, **FP32)
    found = [(record["update"], record["updates"]) for record in metrics(run, "train")]
    assert found == [(5, 5), (10, 5), (13, 3), (15, 2), (20, 5), (25, 5), (30, 5)]


@pytest.mark.parametrize(
    ("module", "function"),
    [(validation, "smoothed_cross_entropy"), (UpdateRunner, "run")],
    ids=["in validation", "after it"],
)
def test_ctrl_c_twice_does_not_wait_and_tells_what_is_saved(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, function: str
) -> None:
    # Update 2 is saved, update 4 validated.
    run, plain = tmp_path / "run", getattr(module, function)

    def hurried(*arguments: object, **options: object) -> object:
        log = run / "train.log"
        validated = "update 4 valid" in log.read_text()
        if not (validated if function == "run" else "resuming at" in log.read_text()):
            return plain(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it waits")

    monkeypatch.setattr(stop, "_SAME_CTRL_C", -1.0)  # not one that torchrun passes on
    train(data, run, max_updates=2)
    monkeypatch.setattr(module, function, hurried)
    with pytest.raises(KeyboardInterrupt):
        train(data, run, validate_every=4)
    reason = "interrupted (SIGINT): updates after the last save are lost"
    assert status(run) == {"status": "stopped", "update": 2, "reason": reason}


@pytest.mark.parametrize(
    ("module", "function"),
    [(validation, "smoothed_cross_entropy"), (decode, "top_tokens")],
    ids=["a batch of losses", "a step of beam search"],
)
def test_a_stop_in_validation_is_answered_at_once(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Callable[..., Path],
    module: object,
    function: str,
) -> None:
    # Update 8 is saved and validated, so that the checkpoint is there before its metrics are.
    values: dict[str, Value] = {**FP32, "validate_every": 4, "validate_bleu": True}
    calls = 0
    plain = getattr(module, function)

    def signal_in_the_second_validation(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += validated_last(tmp_path / "run") == 4
        if calls == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(Stopped, match="at update 8"):
        patch.setattr(module, function, signal_in_the_second_validation)
        train(data, tmp_path / "run", **values)
    assert calls == 1  # no more batches or steps were looked at
    assert [record["update"] for record in metrics(tmp_path / "run", "valid")] == [4]
    run = train(data, tmp_path / "run", **values)
    assert_same_run(run, undisturbed(**values))


def test_the_command_says_that_it_stopped(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    endless = nmt_command("train", data, "--out", run, *settings_of(**ENDLESS))
    with training_until(run, 7, endless) as started:
        started.terminate()
        stdout, stderr = started.communicate()
    update = status(run)["update"]
    assert (started.returncode, stdout) == (75, "")
    assert stderr.splitlines()[-1] == (
        f"nmt: warning: stopped at update {update:,} (SIGTERM), everything saved; run the same "
        "command again to resume"
    )
    assert status(run) == {"status": "stopped", "update": update, "reason": "SIGTERM"}


# --- gone on with on purpose


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
def test_going_on_for_longer_is_having_asked_for_it_at_once(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path], schedule: str
) -> None:
    values = {**FP32, "schedule": schedule}
    run = train(data, tmp_path / "run", **values | {"max_updates": 15})
    assert status(run)["status"] == "finished"
    train(data, run, **values)
    assert_same_run(run, undisturbed(**values))


def test_a_finished_run_run_again_changes_nothing(
    data: Path, tmp_path: Path, undisturbed: Callable[..., Path]
) -> None:
    run = train(data, tmp_path / "run", **FP32)
    before = content(run)
    train(data, run, **FP32)
    after = content(run)
    for found in (before, after):
        del found["train.log"], found["curves.svg"]
    assert after == before
    assert_same_run(run, undisturbed(**FP32))


def test_metrics_written_beyond_the_state_are_cut_back(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for kind, update in [("train", 5), ("valid", 7), ("train", 10), ("valid", 10), ("train", 15)]:
        run.record({"kind": kind, "update": update})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "upd')  # a crash in the middle of a line
    run.cut_metrics(10, validated=7)
    found = [(record["kind"], record["update"]) for record in metrics(tmp_path)]
    assert found == [("train", 5), ("valid", 7), ("train", 10)]
