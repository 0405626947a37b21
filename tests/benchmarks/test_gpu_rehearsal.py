"""`make gpu`: its limit of time, and a rehearsal of all parts on the pretended GPU."""

import json
import sys
from pathlib import Path

import pytest
from benchmarks import gpu
from benchmarks.gpu_report import GOALS
from benchmarks.gpu_scale import REHEARSAL
from benchmarks.harness import run
from pretended_gpu import build
from processes import wait_until_gone


@pytest.mark.slow
def test_a_rehearsal_reports_every_row(tmp_path: Path) -> None:
    try:
        build.build()
    except build.NotHere as why:
        pytest.skip(str(why))
    done = run(
        [sys.executable, "-m", "benchmarks.gpu", "--rehearse", "--out", tmp_path / "out"],
        {"NMT_BENCH_WORK": str(tmp_path / "work")},
    )
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert (tmp_path / "out/report.md").read_text() in done.stdout
    for part in GOALS:
        assert "exit status 0" in found[part]["found"]
        for what in GOALS[part]:
            if what.partition(",")[0] in {"big", "modern"} - REHEARSAL.presets.keys():
                assert what not in found
            else:
                assert not found[what]["found"].startswith("failed"), found[what]


def test_a_part_that_runs_over_is_killed_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NMT_BENCH_WORK", str(tmp_path))
    log = tmp_path / "log"
    words = ["sh", "-c", "sleep 100 & echo $!; setsid sleep 100 & echo $!; wait"]
    assert gpu.run_limited(words, log, 0.5) == "killed"
    started = log.read_text().split()
    assert len(started) == 2
    wait_until_gone(map(int, started))
    assert gpu.run_limited(["sh", "-c", "exit 3"], log, 60.0) == "exit status 3"
