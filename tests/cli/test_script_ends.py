"""How a script beside a recipe ends: by a signal, for lack of a file, and with closed streams."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

NO_ROOM = "libtorch_cpu.so: failed to map segment from shared object"
LIMITED = "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 45, -1))"


@pytest.mark.parametrize(
    ("main", "status", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", 75, "warning: stopped"),
        ("os.kill(os.getpid(), signal.SIGHUP)", 75, "warning: stopped"),
        ("os.kill(os.getpid(), signal.SIGUSR1)", 75, "warning: stopped"),
        ("open('/nowhere/text')", 1, "error: /nowhere/text: "),
        ("exec('raise MemoryError')", 1, "error: out of memory"),
        (f"exec('raise ImportError(\"{NO_ROOM}\")')", 1, "error: out of memory"),
        (f"exec('{LIMITED}; 1 / 0')", 1, "error: ZeroDivisionError: division by zero; "),
        ("None", 0, None),
    ],
)
def test_a_script_ends_with_a_status_and_a_line(main: str, status: int, said: str | None) -> None:
    script = f"import os, signal; from nmt.cli.command import run; run(lambda: {main})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert done.stderr.count("\n") == bool(said)
    assert done.stderr.startswith(f"nmt: {said}" if said else "")


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stderr_is_no_failure_and_writes_into_no_file(tmp_path: Path, closed: str) -> None:
    script = (
        "import os\n"
        "from nmt import console\n"
        "from nmt.cli.command import run\n"
        "def main():\n"
        "    with open('output', 'wb', buffering=0) as file:\n"
        "        console.notice('all is well')\n"
        "        os.write(2, b'as torch does')\n"
        "        file.write(b'data')\n"
        "run(main)\n"
    )
    (tmp_path / "script.py").write_text(script)
    shell = f'"{sys.executable}" script.py {closed}'
    done = subprocess.run(shell, shell=True, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "output").read_bytes() == b"data"


@pytest.mark.parametrize("closed", ["", ">&-"])
def test_a_reader_of_another_pipe_that_leaves_is_a_failure(closed: str) -> None:
    script = (
        "import os\n"
        "from nmt.cli.command import run\n"
        "from nmt.system.files import naming\n"
        "def main():\n"
        "    reading, writing = os.pipe()\n"
        "    os.close(reading)\n"
        "    with naming('fifo'):\n"
        "        os.write(writing, b'data')\n"
        "run(main)\n"
    )
    shell = f"{shlex.join([sys.executable, '-c', script])} {closed}"
    done = subprocess.run(shell, shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"nmt: error: fifo: Broken pipe\n")


def test_a_thread_that_is_inside_torch_at_the_end_does_not_abort_the_process() -> None:
    script = (
        "import threading\n"
        "from torch.distributed import TCPStore\n"
        "from nmt.cli.command import run\n"
        "def main():\n"
        "    store = TCPStore('127.0.0.1', 0, is_master=True)\n"
        "    inside = threading.Event()\n"
        "    def use():\n"
        "        while True:\n"
        "            store.set('key', 'value')\n"
        "            inside.set()\n"
        "    threading.Thread(target=use, daemon=True).start()\n"
        "    inside.wait()\n"
        "    print('done')\n"
        "run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")
