"""The only door to rich and tqdm: progress, tables and notices for people.

stdout belongs to data; everything else goes to stderr. Progress bars vanish where stderr is no
terminal. Under torchrun only rank 0 speaks; errors and warnings are never silenced.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tqdm import tqdm

if TYPE_CHECKING:
    Progress = tqdm[NoReturn]


@dataclass
class _Voice:
    """What this process may say; settled once by the command line."""

    quiet: bool = False
    rank: int = int(os.environ.get("RANK", "0"))

    @property
    def speaks(self) -> bool:
        return not self.quiet and self.rank == 0


_voice = _Voice()


def set_quiet(quiet: bool) -> None:
    """Silence notices and progress for the rest of this process."""
    _voice.quiet = quiet


def _say(line: str) -> None:
    # Through tqdm, which lifts a live progress line out of the way first.
    with contextlib.suppress(OSError):  # that nobody listens any more is no reason to fail
        tqdm.write(line, file=sys.stderr)
        sys.stderr.flush()


def notice(message: str) -> None:
    """Tell what happened; silent with --quiet and on ranks other than 0."""
    if _voice.speaks:
        _say(f"nmt: {message}")


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


def progress(description: str, *, total: int | None, unit: str, initial: int = 0) -> Progress:
    """Return a progress bar with rate and time left, to be used in `with`; call `.update(n)`."""
    visible = _voice.speaks and sys.stderr.isatty()
    return tqdm(
        desc=description,
        total=total,
        initial=initial,
        unit=f" {unit}",
        unit_scale=True,
        disable=not visible,
        dynamic_ncols=True,
        file=sys.stderr,
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print a table on stdout: drawn on a terminal, tab-separated in a pipe.

    Cells that look like numbers are aligned to the right.
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
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _looks_numeric(cell: str) -> bool:
    return cell.strip(" -+%").replace(",", "").replace(".", "", 1).isdigit() or cell in ("", "-")
