"""A command's wall time and the memory of all its processes together."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_INTERVAL = 0.25  # seconds


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    peak_bytes: int
    """Proportional set size of the process and its descendants at its highest, as sampled."""
    stderr: str


def measure(*arguments: str) -> Cost:
    """Run `nmt ARGUMENTS` and return what it took."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", *arguments], stderr=subprocess.PIPE, text=True
    )
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, _tree_bytes(process.pid))
            time.sleep(_INTERVAL)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, said = process.communicate()
    seconds = time.monotonic() - began
    watcher.join()
    assert process.returncode == 0, said
    return Cost(seconds, peak, said)


def _tree_bytes(root: int) -> int:
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything; the parent is the second field behind it.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    tree, waiting = [], [root]
    while waiting:
        tree.append(waiting.pop())
        waiting += [process for process, parent in parents.items() if parent == tree[-1]]
    return sum(map(_process_bytes, tree))


def _process_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
