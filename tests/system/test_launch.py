"""Processes that are started together: one exit status, and every signal."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import LONG, wait_until
from toy_training import environment, python_command, run_command

LAUNCHED = Path(__file__).parents[1] / "training" / "launched.py"


def start(code: str, *words: str) -> subprocess.Popen[str]:
    """Start two processes with this code, which knows os and its `rank`."""
    code = f"import os, sys; rank = int(os.environ['RANK']); {code}"
    return subprocess.Popen(
        python_command(LAUNCHED, "2", "-c", code, *words),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(75)", 75),
        ("sys.exit(2 if rank else 0)", 2),
        ("import time; rank or time.sleep(600); sys.exit(2)", 2),
        ("import time; rank or time.sleep(600); os.kill(os.getpid(), 9)", 1),
        ("os.kill(os.getpid(), 15)", 75),
    ],
)
def test_many_statuses_become_one(code: str, status: int) -> None:
    with start(code) as started:
        said = started.communicate(timeout=LONG)[1]
    assert started.returncode == status, said
    killed = "nmt: error: process 1 was ended by SIGKILL; run the same command again"
    lines = [line for line in said.splitlines() if "warning: stopped" not in line]
    assert [killed in line for line in lines] == ([True] if status == 1 else [])
    if "15" in code:
        assert "nmt: warning: stopped; run the same command again" in said


def test_every_signal_is_passed_on(tmp_path: Path) -> None:
    hear = (
        "import signal, time; heard = []; "
        "hear = lambda *_: heard.append(0) or open(f'{sys.argv[1]}/{rank}.{len(heard)}', 'w'); "
        "signal.signal(signal.SIGINT, hear); hear(); "
        "[time.sleep(0.01) for _ in iter(lambda: len(heard) < 3, False)]; sys.exit(75)"
    )
    with start(hear, str(tmp_path)) as started:
        for times in (1, 2):
            for rank in (0, 1):
                wait_until((tmp_path / f"{rank}.{times}").exists, f"signal {times} in {rank}")
            started.send_signal(signal.SIGINT)
        said = started.communicate(timeout=LONG)[1]
    assert started.returncode == 75
    assert not said


def test_a_launcher_that_waits_holds_little_code() -> None:
    wait = (
        "import os, time; status = lambda: open(f'/proc/{os.getppid()}/status').read(); "
        "held = lambda: int(status().split('RssFile:')[1].split()[0]); "
        "[time.sleep(0.01) for _ in iter(lambda: held() < 40_000, True)]"
    )
    # Not by a warm Python, whose copies hold little code anyway.
    run_command([sys.executable, str(LAUNCHED), "2", "-c", wait], timeout=LONG).check_returncode()
