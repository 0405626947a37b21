"""Processes and the most memory that they held."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """The output and the cost of a process that ended without an error."""

    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int


def run(command: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Run a command.

    The peak is the resident set size at its highest, which the kernel keeps. Children do not count.
    """
    return _run(command, environment, _high_water_mark, 0.1)


def nmt(*arguments: str) -> Finished:
    """Run `nmt ARGUMENTS`.

    The peak is the proportional set size of the process and its descendants, as sampled.
    """
    return _run([sys.executable, "-m", "nmt", *arguments], None, _tree_bytes, 0.25)


def _run(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    size: Callable[[int], int],
    interval: float,
) -> Finished:
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(interval):
            peak = max(peak, size(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    stdout, stderr = process.communicate()
    seconds = time.monotonic() - began
    ended.set()
    watcher.join()
    assert process.returncode == 0, stderr
    return Finished(stdout, stderr, seconds, peak)


def _tree_bytes(root: int) -> int:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything. The parent is the second field after it.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    tree, waiting = [], [root]
    while waiting:
        tree.append(waiting.pop())
        waiting += [process for process, parent in parents.items() if parent == tree[-1]]
    return sum(_kilobytes(f"/proc/{process}/smaps_rollup", "Pss:") for process in tree)


def _high_water_mark(process: int) -> int:
    return _kilobytes(f"/proc/{process}/status", "VmHWM:")


def _kilobytes(path: str, name: str) -> int:
    """Return the bytes that a line of a file in /proc gives in kB; 0 if the process is gone."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(name))
