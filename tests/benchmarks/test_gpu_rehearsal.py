"""`make gpu`, rehearsed on a CPU: every part reports, also on a machine that lacks sacremoses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from benchmarks.gpu_report import GOALS
from benchmarks.harness import environment, run


@pytest.mark.slow
def test_a_rehearsal_reports_every_row(tmp_path: Path) -> None:
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / "sacremoses.py").write_text("raise ModuleNotFoundError('sacremoses')\n")
    path = os.pathsep.join([str(lacking), environment()["PYTHONPATH"]])
    done = run(
        [sys.executable, "-m", "benchmarks.gpu", "--rehearse", "--out", tmp_path / "out"],
        {"NMT_BENCH_WORK": str(tmp_path / "work"), "PYTHONPATH": path},
    )
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert (tmp_path / "out/report.md").read_text() in done.stdout
    for part, goals in GOALS.items():
        assert "exit status 0" in found[part]["found"]
        for what in goals:
            assert not found[what]["found"].startswith("failed"), found[what]
