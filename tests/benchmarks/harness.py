"""What every benchmark does: run commands, measure systems in turn, and print a table of medians.

README.md says what you can set by NMT_BENCH_ variables.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from nmt.system.machine import WAITING
from nmt.system.plot import Panel, draw_curves

NMT = (sys.executable, "-m", "nmt")

_TESTS = Path(__file__).parents[1]

Measured = TypeVar("Measured")
Setting = TypeVar("Setting", int, float, str)


def setting(name: str, usual: Setting) -> Setting:
    """Return NMT_BENCH_NAME in the type of its usual value."""
    return type(usual)(os.environ.get(f"NMT_BENCH_{name}", usual))


def work_folder(usual: Path) -> Path:
    """Return the folder NMT_BENCH_WORK, where an interrupted benchmark goes on."""
    folder = Path(setting("WORK", str(usual)))
    folder.mkdir(exist_ok=True)
    return folder


def rounds(usual: int = 5) -> int:
    """Return how often each system is measured."""
    return setting("ROUNDS", usual)


def is_installed(*modules: str) -> bool:
    """Tell whether this Python can import all modules."""
    return all(map(importlib.util.find_spec, modules))


@dataclass(frozen=True)
class Finished:
    """The output and the cost of a process that ended without an error."""

    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int


def run(
    command: Sequence[str | Path],
    variables: Mapping[str, str] | None = None,
    *,
    with_children: bool = False,
) -> Finished:
    """Run a command, with some environment variables changed.

    with_children: whether the peak is the sampled proportional set size of the process and all that
        it starts, instead of the highest resident set size of the process.
    """
    size, every = (_tree_bytes, 0.25) if with_children else (_high_water_mark, 0.1)
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | dict(variables or {}),
    )
    with highest(lambda: size(process.pid), every) as peak:
        stdout, stderr = process.communicate()
        seconds = time.monotonic() - began
    assert process.returncode == 0, stderr
    return Finished(stdout, stderr, seconds, peak[0])


def words_of(options: Mapping[str, object]) -> list[str]:
    """Return options and their values as words of a command."""
    return [str(word) for option in options.items() for word in option]


def nmt(*arguments: str | Path, with_children: bool = False) -> Finished:
    """Run `nmt ARGUMENTS`."""
    return run([*NMT, *arguments], with_children=with_children)


def environment() -> dict[str, str]:
    """Return this process's environment for another one, with the benchmarks importable.

    Importing nmt has set how threads wait. Other systems must not inherit that, and each new nmt
    sets it again.
    """
    ours = WAITING.keys() if WAITING.items() <= os.environ.items() else ()
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    paths = [str(_TESTS), str(_TESTS / "support"), inherited.get("PYTHONPATH")]
    return inherited | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def in_turn(
    systems: Mapping[str, Callable[[], Measured]], rounds: int
) -> dict[str, list[Measured]]:
    """Measure the systems in turn, so that a slow minute hits all alike."""
    found: dict[str, list[Measured]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, measure in systems.items():
            found[name].append(measure())
    return found


@contextlib.contextmanager
def highest(size: Callable[[], int], every: float) -> Iterator[list[int]]:
    """Ask for a size every so many seconds; the list's one number is the highest so far."""
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            peak[0] = max(peak[0], size())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def parents() -> dict[int, int]:
    """Return the parent of each process."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            # The name in brackets may hold anything. The parent is the second field after it.
            found[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    return found


def process_tree(root: int) -> list[int]:
    """Return a process and all that descend from it."""
    tree, waiting, parent_of = [], [root], parents()
    while waiting:
        tree.append(waiting.pop())
        waiting += [process for process, parent in parent_of.items() if parent == tree[-1]]
    return tree


def _tree_bytes(root: int) -> int:
    return sum(_kilobytes(f"/proc/{one}/smaps_rollup", "Pss:") for one in process_tree(root))


def _high_water_mark(process: int) -> int:
    return _kilobytes(f"/proc/{process}/status", "VmHWM:")


def _kilobytes(path: str, name: str) -> int:
    """Return the bytes that a line of a file in /proc gives in kB; 0 if the process is gone."""
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return 1024 * int(line.split()[1])
    return 0


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Return the median, the lowest and the highest as text."""
    if len(values) == 1:
        return format(values[0], form)
    low, high = min(values), max(values)
    return f"{median(values):{form}} ({low:{form}} to {high:{form}})"


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """Return a Markdown table, each row a mapping from column to cell; the first has all columns.

    All columns except the first are right-aligned.
    """
    rows = list(rows)
    columns = list(rows[0])
    cells = [[row.get(column, "") for column in columns] for row in rows]
    ruler = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [columns, ruler, *cells])


def by_share(shares: Mapping[str, float], form: str = ".1%") -> list[tuple[str, str]]:
    """Return the shares, largest first, each with the languages that have it."""
    codes: dict[str, list[str]] = {}
    for code in sorted(shares, key=lambda code: -round(shares[code], 3)):
        codes.setdefault(f"{shares[code]:{form}}", []).append(code)
    return [(share, ", ".join(of_share)) for share, of_share in codes.items()]


def publish(text: str) -> None:
    """Print a report, and add it to the file NMT_BENCH_OUT."""
    print(f"\n{text}\n")
    if path := setting("OUT", ""):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n\n")


Line = tuple[Sequence[float], Sequence[float]]
"""Places on the x axis and BLEU there."""


def publish_bleu(name: str, lines: Mapping[str, Line], text: str, x_label: str, title: str) -> None:
    """Draw BLEU of a text, by system, as NAME.svg beside the file NMT_BENCH_OUT."""
    series = [(system, list(zip(x, y, strict=True))) for system, (x, y) in lines.items()]
    picture = draw_curves([Panel("BLEU", series, text)], title, x_label=x_label)
    if path := setting("OUT", ""):
        Path(path).with_name(f"{name}.svg").write_text(picture, encoding="utf-8")
