"""A run's folder: what is on record stays whole."""

import resource
from pathlib import Path

import pytest
from toy_training import metrics

from nmt.runs.run_folder import RunFolder


def test_a_line_for_which_there_is_no_room_leaves_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.record({"kind": "train", "update": 1})
    written = (tmp_path / "metrics.jsonl").read_bytes()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(written) + 5, usual[1]))
    try:
        run.record({"kind": "train", "update": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert (tmp_path / "metrics.jsonl").read_bytes() == written
    run.record({"kind": "train", "update": 3})
    assert [record["update"] for record in run.metrics()] == [1, 3]


def test_lines_that_cannot_be_written_are_lost_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    run = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").symlink_to(full)
    (tmp_path / "train.log").symlink_to(full)
    for update in (1, 2):
        run.record({"update": update})
        run.log(f"update {update}")
    told = capsys.readouterr().err
    for name in ("metrics.jsonl", "train.log"):
        assert told.count(f"nmt: warning: {tmp_path / name}: No space left") == 1
    assert "nmt: update 2" in told


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
