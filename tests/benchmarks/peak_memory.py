"""A process's output, and the most memory it held."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_INTERVAL = 0.1  # seconds


@dataclass(frozen=True)
class Finished:
    """What a process that ended well leaves behind."""

    stdout: str
    stderr: str
    peak_bytes: int
    """Resident set size at its highest, which the kernel keeps; its children do not count."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Run a command to its end, which must be a good one."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(_INTERVAL):
            peak = max(peak, _high_water_mark(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    stdout, stderr = process.communicate()
    ended.set()
    watcher.join()
    assert process.returncode == 0, stderr
    return Finished(stdout, stderr, peak)


def _high_water_mark(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
