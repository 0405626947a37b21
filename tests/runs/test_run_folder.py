"""A run's folder: what is on record stays whole."""

from __future__ import annotations

import resource
from pathlib import Path

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
