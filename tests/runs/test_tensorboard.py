"""The metrics for TensorBoard are those of metrics.jsonl, also after a resume."""

import errno
import os
import sys

import pytest
from mishaps import save_states_every
from torch.utils.tensorboard import SummaryWriter
from toy_training import Toy, metrics, status

from nmt.errors import UsageError


def test_a_missing_package_is_named_at_the_start(toy: Toy) -> None:
    toy.patch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match="pip install tensorboard`"):
        toy.train(tensorboard=True)
    assert not (toy.folder / "run").exists()


def test_event_files_hold_the_figures_of_metrics(toy: Toy) -> None:
    """Of a run that was killed after update 20, and went on from update 16."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    save_states_every(toy.patch, 8)
    run = toy.train(tensorboard=True, max_updates=20)
    (run / "checkpoints/update-00000020.state").unlink()
    toy.train(tensorboard=True, log_every=2)
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    expected = {
        (f"{record['kind']}/{key}", record["update"]): value
        for record in metrics(run)
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
    steps = {step for (tag, step), _ in found if tag == "train/loss"}
    assert steps == {5, 10, 15, 18, 20, 22, 24, 26, 28, 30}


def test_a_full_disk_does_not_end_the_run(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    toy.patch.setattr(SummaryWriter, "flush", full)
    toy.patch.setattr(SummaryWriter, "close", full)
    run = toy.train(tensorboard=True)
    assert status(run)["status"] == "finished"
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "tensorboard" in line)
    assert warning.startswith(f"nmt: warning: {run / 'tensorboard'}: No space left on device; ")
