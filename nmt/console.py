"""Progress, live views, tables and notices: the only module that uses rich and tqdm.

stdout is for data; everything else goes to stderr. Progress bars and live views appear only if
stderr is a terminal. Under torchrun only rank 0 prints notices. Errors and warnings always appear.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, Self

if TYPE_CHECKING:
    from rich.console import RenderableType

_FRAMES_PER_SECOND = 2  # of a live view, each of which takes a few milliseconds
_RATE_SECONDS = 600.0  # over which a live view measures its rate, which also covers slow updates


def _write_line(line: str) -> None:
    # In one piece: under torchrun several processes write to one stderr, unbuffered.
    if sys.stderr is None:  # it may be closed
        return
    text = f"{line}\n"
    if "tqdm" in sys.modules:  # which lifts a live progress line out of the way first
        from tqdm import tqdm

        tqdm.write(text, file=sys.stderr, end="")
    else:
        sys.stderr.write(text)
    sys.stderr.flush()


@dataclass
class _Voice:
    """What this process may say; settled once by the command line."""

    quiet: bool = False
    rank: int = int(os.environ.get("RANK", "0"))
    write: Callable[[str], None] = _write_line  # above a live view while there is one

    @property
    def speaks(self) -> bool:
        return not self.quiet and self.rank == 0

    @property
    def shows(self) -> bool:
        """Whether there is somebody to see what moves."""
        return self.speaks and sys.stderr.isatty()


_voice = _Voice()


def set_quiet(quiet: bool) -> None:
    """Silence notices and progress for the rest of this process."""
    _voice.quiet = quiet


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # that nobody listens any more is no reason to fail
        _voice.write(line)


def notice(message: str) -> None:
    """Tell what happened; silent with --quiet and on ranks other than 0."""
    if _voice.speaks:
        _say(f"nmt: {message}")


def summary(figures: Mapping[str, object]) -> None:
    """Say in one line of JSON, for programs, what has been done; silent as notices are."""
    if _voice.speaks:
        _say(json.dumps(figures))


def warning(message: str) -> None:
    """Tell what the user should look at; shown with --quiet too."""
    if _voice.rank == 0:
        _say(f"nmt: warning: {message}")


def error(message: str) -> None:
    """Tell why the command ends; every rank may have a reason of its own."""
    prefix = (
        "nmt: error: " if "WORLD_SIZE" not in os.environ else f"nmt: rank {_voice.rank}: error: "
    )
    _say(prefix + message)


class Progress(Protocol):
    """A progress bar, for `with`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def update(self, n: int = 1) -> object:
        """Count on."""


class _NoProgress:
    """Where nobody sees a bar; tqdm takes its time to load."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        pass


def progress(description: str, *, total: int | None, unit: str, initial: int = 0) -> Progress:
    """Return a progress bar with rate and time left, to be used in `with`; call `.update(n)`."""
    if not _voice.shows:
        return _NoProgress()
    from tqdm import tqdm

    return tqdm[NoReturn](
        desc=description,
        total=total,
        initial=initial,
        unit=f" {unit}",
        unit_scale=True,
        dynamic_ncols=True,
        file=sys.stderr,
    )


class LiveView:
    """A progress bar and rows of text below it, kept at the foot of the terminal; for `with`.

    A thread of its own draws it, so that it costs the work nothing but a counter. Notices appear
    above it, and it leaves nothing behind. Where stderr is no terminal there is nothing at all.
    """

    def __init__(self, description: str, *, total: int, unit: str, initial: int = 0) -> None:
        self.rows: Sequence[tuple[str, str]] = ()
        """What stands below the bar: label and text, cut to a line each."""
        self._unit = unit
        self._visible = _voice.shows
        if not self._visible:
            return
        from rich.console import Console
        from rich.live import Live
        from rich.progress import Progress as Steps

        self._console = Console(stderr=True)
        self._steps = Steps(
            console=self._console, auto_refresh=False, speed_estimate_period=_RATE_SECONDS
        )
        self._step = self._steps.add_task(description, total=total, completed=initial)
        self._live = Live(
            console=self._console,
            refresh_per_second=_FRAMES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            get_renderable=self._draw,
        )

    def __enter__(self) -> Self:
        if self._visible:
            with contextlib.suppress(OSError):
                self._live.start()
            _voice.write = self._write_above
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._visible:
            _voice.write = _write_line
            with contextlib.suppress(OSError):  # the terminal may have been closed meanwhile
                self._live.stop()

    def advance(self) -> None:
        """Count one step."""
        if self._visible:
            self._steps.advance(self._step)

    def go_back(self, step: int) -> None:
        """Count from an earlier step on."""
        if self._visible:
            self._steps.reset(self._step, completed=step)

    def _write_above(self, line: str) -> None:
        from rich.text import Text

        self._console.print(Text(line), soft_wrap=True)

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        step = self._steps.tasks[0]
        rate = f"{step.speed:.3g} {self._unit}/s" if step.speed else ""
        left = f"{timedelta(seconds=int(step.time_remaining))} left" if step.time_remaining else ""
        bar = Table.grid(padding=(0, 1), expand=True)
        for ratio in (None, 1, None, None, None):
            bar.add_column(ratio=ratio, no_wrap=True)
        bar.add_row(
            step.description,
            ProgressBar(step.total, step.completed),
            f"{step.completed:,.0f}/{step.total:,.0f}",
            rate,
            left,
        )
        rows = Table.grid(padding=(0, 1), expand=True)
        rows.add_column(style="bold", no_wrap=True)
        rows.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        # A view higher than the terminal could not be taken away again.
        for label, text in self.rows[: max(0, self._console.height - 2)]:
            rows.add_row(label, Text(printable(text)))
        return Group(bar, rows)


def counted(number: int, one: str, many: str) -> str:
    """Write a number and what there are so many of: 1 line is, 1,000 lines are."""
    return f"{number:,} {one if number == 1 else many}"


def duration(seconds: float) -> str:
    """Write a time in the largest unit of which there are at least two: 2.5 hours, 95 minutes."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} seconds"


def printable(text: str) -> str:
    """Show controls and odd spaces by their codes, so that they do nothing to a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    line_behind: Container[int] = (),
) -> None:
    """Print a table on stdout: drawn on a terminal, tab-separated in a pipe.

    Cells that look like numbers are aligned to the right.

    Args:
        columns: their names.
        rows: as many cells each.
        title: stands above the table on a terminal.
        line_behind: rows behind which a terminal draws a line.
    """
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        numeric = all(_looks_numeric(row[index]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*(Text(cell) for cell in row), end_section=number in line_behind)
    Console().print(table)


def _looks_numeric(cell: str) -> bool:
    return cell.strip(" -+%").replace(",", "").replace(".", "", 1).isdigit() or cell in ("", "-")
