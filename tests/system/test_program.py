"""Signals at any time of a program's life: one of our exit statuses, and no traceback."""

from pathlib import Path

import pytest
from processes import run_python

STOPPED = "nmt: warning: stopped; run the same command again\n"
IMPORTS = """
import atexit, os, signal, sys, time
from nmt import console
from nmt.system.program import prepare_process
def send():
    os.kill(os.getpid(), signal.SIGNAL)
class Late:
    def __del__(self):
        send()  # what it raises here, Python reports and forgets
def run(main):
    from nmt.cli.command import run
    run(main)
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        ("prepare_process(); send(); time.sleep(600)", 75, STOPPED),
        ("run(send)", 75, STOPPED),
        ("run(lambda: (Late() and None, time.sleep(600)))", 75, STOPPED),
        ("run(lambda: __import__('swallows_all').work())", 75, STOPPED),
        ("atexit.register(send); run(lambda: None)", 0, ""),
        ("late = Late(); run(lambda: None)", 0, ""),
        ("atexit.register(send); run(lambda: open('/nowhere'))", 1, "No such file or directory\n"),
        ("console.warning = lambda _: send(); run(send)", 75, ""),
        (
            "console.print_row = lambda _: send(); sys.argv[1:] = ['--version']\n"
            "from nmt.__main__ import main; main()",
            75,
            STOPPED,
        ),
    ],
)
def test_a_signal_at_any_time_gives_one_of_our_statuses(
    tmp_path: Path, number: str, program: str, status: int, said: str
) -> None:
    (tmp_path / "swallows_all.py").write_text(
        "import __main__, time\n"
        "try: __main__.send()\n"
        "except BaseException: pass\n"
        "def work(): time.sleep(600)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(IMPORTS.replace("SIGNAL", number) + program)
    done = run_python(script, check=False)
    assert done.returncode == status
    assert done.stderr.endswith(said) and done.stderr.count("\n") == bool(said)


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    program = "signal.signal(signal.SIGHUP, signal.SIG_IGN); run(send)"
    run_python("-c", IMPORTS.replace("SIGNAL", "SIGHUP") + program)
