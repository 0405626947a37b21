"""The metrics for TensorBoard are those of metrics.jsonl, also after a resume."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest
from mishaps import spoil_gradients
from torch.utils.tensorboard import SummaryWriter
from toy_training import metrics, status, train

from nmt.errors import UsageError


def test_a_missing_package_is_named_at_the_start(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match=r"pip install 'nmt\[tensorboard\]'"):
        train(data, tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_event_files_hold_the_figures_of_metrics(data: Path, tmp_path: Path) -> None:
    """Of a run that was killed after update 20, and went on from the state of update 16."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(data, tmp_path / "run", tensorboard=True, max_updates=20)
    (run / "checkpoints/update-00000020.state").unlink()
    train(data, run, tensorboard=True, validate_bleu=False)
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    records = metrics(run)
    expected = {
        (f"{record['kind']}/{key}", record["update"]): value
        for record in records
        for key, value in record.items()
        if record["kind"] in ("train", "valid")
        and key != "update"
        and isinstance(value, int | float)
    }
    found = [
        ((tag, event.step), event.value)
        for tag in events.Tags()["scalars"]
        for event in events.Scalars(tag)
    ]
    assert len(found) == len(dict(found))  # each step once
    assert dict(found) == pytest.approx(expected, rel=1e-6)
    assert {step for (tag, step), _ in found if tag == "train/loss"} == {5, 10, 15, 20, 25, 30}


def test_a_full_disk_does_not_end_the_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SummaryWriter, "flush", full)
    monkeypatch.setattr(SummaryWriter, "close", full)
    run = train(data, tmp_path / "run", tensorboard=True)
    assert status(run)["status"] == "finished"
    said = [line for line in capsys.readouterr().err.splitlines() if "tensorboard" in line]
    assert said == [
        f"nmt: warning: {run / 'tensorboard'}: No space left on device; training continues without "
        "writing it"
    ]


def test_after_going_back_each_step_is_there_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    spoil_gradients(monkeypatch, range(17, 22))
    run = train(data, tmp_path / "run", tensorboard=True, log_every=2)
    assert [record["update"] for record in metrics(run) if "went_back" in record] == [16]
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    steps = [event.step for event in events.Scalars("train/loss")]
    assert steps == [record["update"] for record in metrics(run, "train")]


def test_without_being_asked_nothing_is_written(data: Path, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", max_updates=2)
    assert not (run / "tensorboard").exists()
