"""`--workers ray`: the units of work on a Ray cluster give what local processes give."""

import subprocess
import sys
from pathlib import Path

import pytest
from prepare_job import content, pairs, write
from ray_job import job

from nmt.errors import NMTError, UsageError

pytest.importorskip("ray", reason="needs the extra ray")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    write(tmp_path, "train", pairs(3_000))
    write(tmp_path, "valid", [("one", "eins")])
    return tmp_path


@pytest.mark.slow
def test_a_node_that_dies_loses_no_line_and_changes_no_byte(text: Path) -> None:
    script = Path(__file__).parents[1] / "support" / "ray_job.py"
    command = [sys.executable, str(script), str(text), str(text / "on-ray")]
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    local = job(text, text / "local", workers=1).prepare()
    assert content(text / "on-ray") == content(local.path)
    assert len(local.train) == 3_000


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [("", UsageError, "RAY_ADDRESS"), ("127.0.0.1:1", NMTError, r".*127\.0\.0\.1:1")],
)
def test_a_cluster_that_is_not_named_or_not_there_is_told(
    text: Path, monkeypatch: pytest.MonkeyPatch, address: str, error: type[NMTError], message: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(error, match=f"^--workers ray: {message}"):
        job(text, text / "data", workers="ray").prepare()
    assert not (text / "data").exists()
