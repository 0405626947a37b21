"""Progress, tables and notices: the only module that prints, and that uses rich and tqdm.

stdout is for data; everything else goes to stderr. Progress appears only if stderr is a terminal.
Of several processes of a training only rank 0 prints notices. Errors always appear.

File names, metadata of models and messages of other programs may hold escape sequences, and line
breaks that fake a message of ours. So all that is printed passes `printable` here. Logs are kept
and shown to others, so all that is said on stderr passes `without_secrets`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import textwrap
import traceback
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

if TYPE_CHECKING:
    from rich.text import Text

_FRAME_SECONDS = 0.5  # between drawings, each of which takes some milliseconds
_LONGEST_MESSAGE = 4_000  # characters; a file may have a name or a value of any length
_GAP = 2  # columns of a terminal between those of a table
_FOLDED = 16  # characters of a word that a table does not break
_NARROWEST = 20  # columns of a terminal that are worth breaks between words
_RED, _YELLOW = 31, 33  # of ECMA-48

STEP = "NMT_STEP"
"""Set in the environment of a command that is a step of another one, which says what is next."""


class _Voice:
    """What this process says besides errors and warnings: if it is a rank, the first one only."""

    rank = int(os.environ.get("RANK", "0"))
    is_quiet = False
    tells_all = False
    taken: TextIO | None = None  # stdout, once `take_stdout` has kept it from others


def set_quiet(quiet: bool) -> bool:
    """Silence notices and progress for the rest of this process; return what was set."""
    _Voice.is_quiet = quiet
    return quiet


def set_rank(rank: int) -> None:
    """Let this process be one of several that do the same."""
    _Voice.rank = rank


def _speaks() -> bool:
    return not _Voice.is_quiet and _Voice.rank == 0


def set_verbose(verbose: bool) -> bool:
    """Show details, too, for the rest of this process; return what was set."""
    _Voice.tells_all = verbose
    return verbose


def _shown(message: str) -> str:
    message = without_secrets(message)
    shown = printable(message[:_LONGEST_MESSAGE])
    return shown if len(message) <= _LONGEST_MESSAGE else f"{shown}..."


def _write(line: str) -> None:
    with contextlib.suppress(OSError):  # a closed terminal is not a reason to fail
        if sys.stderr is not None:  # it may be closed
            # In one piece: several processes of a training write to one stderr, unbuffered.
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


def notice(message: str) -> None:
    """Tell what happened; silent with --quiet and on ranks other than 0.

    A terminal shows it with breaks between words, and everything else in one line.
    """
    if _speaks():
        _write(_wrapped(_shown(f"nmt: {message}")))


def next_step(command: str, path: object, rest: str) -> None:
    """Show the command that usually follows to people at a terminal, whole, so that they copy it.

    path: the argument between `command` and `rest` that a shell may need in quotes.
    """
    if _speaks() and is_terminal() and STEP not in os.environ:
        _write(_shown(f"nmt: next: {command} {shlex.quote(str(path))} {rest}"))


def detail(message: str) -> None:
    """Tell what only few want to know; silent without --verbose."""
    if _Voice.tells_all:
        notice(message)


def summary(values: Mapping[str, object], *, with_quiet: bool) -> None:
    """Sum up the work in one line of JSON, for programs; silent as notices are, unless asked."""
    if _speaks() or (with_quiet and _Voice.rank == 0):
        _write(without_secrets(json.dumps(values)))


def warning(message: str) -> None:
    """Tell what the user should look at; shown with --quiet too."""
    if _Voice.rank == 0:
        # Whole, so that you can copy the commands in it.
        _write(f"nmt: {_coloured('warning', _YELLOW)}: {_shown(message)}")


def error(message: str) -> None:
    """Tell why the command ends; other processes than the first may have reasons of their own."""
    rank = f"rank {_Voice.rank}: " if _Voice.rank else ""
    _write(f"nmt: {rank}{_coloured('error', _RED)}: {_shown(message)}")


def fault(error: BaseException) -> None:
    """Print the traceback of a fault of ours, which somebody is to report."""
    for line in "".join(traceback.format_exception(error)).splitlines():
        _write(printable(without_secrets(line)[:_LONGEST_MESSAGE]))


def is_terminal() -> bool:
    """Tell whether people read stderr."""
    return sys.stderr is not None and sys.stderr.isatty()


def _wrapped(line: str) -> str:
    """Break a line between words where the terminal ends; elsewhere it stays whole."""
    width = 0
    with contextlib.suppress(OSError, ValueError):
        if is_terminal():
            width = os.get_terminal_size(sys.stderr.fileno()).columns
    if len(line) <= width or width < _NARROWEST:
        return line
    return textwrap.fill(
        line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _coloured(word: str, colour: int) -> str:
    """Write a word in bold and in colour, if a terminal shows it; see https://no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal()
    return word if plain else f"\x1b[1;{colour}m{word}\x1b[0m"


class Bar(Protocol):
    """A progress bar."""

    n: int  # how much is done
    total: int | None  # how much there is to do, if that is known

    def update(self, n: int = 1) -> object:
        """Count on, or back if `n` is negative."""

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Set what the line of the bar shows besides."""


class _NoBar:
    n = 0
    total: int | None = None

    def update(self, n: int = 1) -> None:
        self.n += n

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None: ...


@contextlib.contextmanager
def progress(description: str, *, total: int | None, unit: str, initial: int = 0) -> Iterator[Bar]:
    """Show a progress bar with rate and time left during the block, if stderr is a terminal.

    Lines on stderr appear above it, and it leaves nothing behind. A bar inside another one stands
    below it. There is no thread, so you can fork inside the block.

    description: what is done.
    total: how much there is to do, if that is known.
    unit: what is counted; B for bytes.
    initial: what was done before.
    """
    if not (_speaks() and is_terminal()):
        yield _NoBar()
        return
    terminal = sys.__stderr__  # which a bar around this one has replaced in sys.stderr
    assert terminal is not None
    from tqdm import tqdm
    from tqdm.contrib import DummyTqdmFile

    tqdm.monitor_interval = 0  # which would start a thread
    is_of_bytes = unit == "B"
    bar = tqdm(
        desc=printable(without_secrets(description)),
        total=total,
        unit=unit if is_of_bytes else f" {unit}",
        unit_scale=is_of_bytes,
        initial=initial,
        file=terminal,
        leave=False,
        dynamic_ncols=True,
        mininterval=_FRAME_SECONDS,
    )
    with bar, contextlib.redirect_stderr(DummyTqdmFile(terminal)):
        yield bar


def counted(number: int, one: str, many: str) -> str:
    """Write a number with its noun: 1 line is, 1,000 lines are."""
    return f"{number:,} {one if number == 1 else many}"


def listed(words: Iterable[str], conjunction: str) -> str:
    """Return at least two words as a sentence lists them: `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}"


def duration(seconds: float) -> str:
    """Write a time in the largest unit that gives at least 2: 2.5 hours, 95 minutes."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return counted(round(seconds), "second", "seconds")


def clock(seconds: float) -> str:
    """Write a time as H:MM:SS."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def printable(text: str) -> str:
    """Replace control characters, line breaks and odd spaces by their codes, for terminals."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


_AFTER_URL = re.compile(r"""[\s"'<>]""")


def without_secrets(text: str) -> str:
    """Leave passwords and queries, which may hold keys, out of the URLs in a text."""
    before, *others = text.split("://")
    parts = [before]
    for other in others:
        after = _AFTER_URL.search(other)
        end = len(other) if after is None else after.start()
        host, slash, path = other[:end].partition("/")
        user, at, host = host.rpartition("@")
        address = "".join((user.partition(":")[0], at, host, slash, path))
        address, _, query = address.partition("?")
        stop = query[len(query.rstrip(":;,.)")) :]  # of the sentence
        parts.append(address + stop + other[end:])
    return "://".join(parts)


def take_stdout() -> None:
    """Keep stdout for data: what libraries print there goes to stderr until the process ends.

    Ray tells of its dead workers by `print`, from a thread. Libraries in C write to file 1, as
    oneDNN does with ONEDNN_VERBOSE=1. Lines of both would stand in the middle of a translation. So
    both names, `sys.stdout` and file 1, become stderr, and only `stdout` finds the real one.
    """
    with contextlib.suppress(OSError):  # a stream of Python's without a file, as in tests
        data = os.dup(sys.stdout.fileno())
        sys.stdout.flush()
        # What a program reads is UTF-8, whatever the locale.
        _Voice.taken = os.fdopen(data, "w", encoding="utf-8", errors="backslashreplace")
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # which, unlike a pipe, holds no lines back


def stdout() -> TextIO | Any:
    """Return the stream for data. It is None where stdout is closed, as `sys.stdout` is."""
    return _Voice.taken or sys.stdout


def print_row(*cells: str) -> None:
    """Print a line on stdout, with tabs between the cells."""
    print("\t".join(map(printable, cells)), file=stdout())


def print_text(text: str) -> None:
    """Print whole lines on stdout."""
    for line in text.removesuffix("\n").split("\n"):
        print_row(line)


def print_json(value: object) -> None:
    """Print a value as JSON on stdout, for programs and for people."""
    print_text(json.dumps(value, indent=2))


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    line_after: Container[int] = (),
) -> None:
    """Print a table on stdout: drawn on a terminal, tab-separated in a pipe.

    Cells that look like numbers are aligned to the right. If a terminal is too narrow for the words
    of the heads, each row becomes a list of names and values.

    columns: their names.
    rows: as many cells each.
    title: stands above the table on a terminal.
    line_after: rows after which a terminal has an empty line.
    """
    if not stdout().isatty():
        for row in (columns, *rows):
            print_row(*row)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = Console()
    heads = [Text(printable(column), style="bold") for column in columns]
    cells = [[Text(printable(cell)) for cell in row] for row in rows]
    numeric = [all(_looks_numeric(row[n]) for row in rows) for n in range(len(columns))]
    widths = _widths([heads, *cells], numeric, terminal.width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=bool(widths))
    for head, is_numeric, width in zip(heads, numeric, widths, strict=False):
        justify: Literal["left", "right"] = "right" if is_numeric else "left"
        table.add_column(head, justify=justify, overflow="fold", width=width)
    for number, row_cells in enumerate(cells):
        if widths:
            table.add_row(*row_cells)
        else:
            for pair in zip(heads, row_cells, strict=True):
                table.add_row(*pair)
        if number in line_after or (not widths and number + 1 < len(cells)):
            table.add_row()
    if title:
        terminal.print(Text(title, style="italic"))
    terminal.print(table)


def _widths(rows: Sequence[Sequence[Text]], numeric: Sequence[bool], room: int) -> list[int]:
    """Return the widths of a table's columns; none if whole words do not fit on the terminal.

    The first column holds names, which are copied. It stays whole, and so do numbers and heads.
    Long words of other text may be folded.

    rows: the heads, and all others.
    numeric: whether a column holds numbers.
    room: columns of the terminal.
    """
    widths, wanted = [], []
    for index, is_numeric in enumerate(numeric):
        head, *column = (row[index] for row in rows)
        words = [word.cell_len for word in head.split(" ")]
        if index == 0 or is_numeric:
            words += [cell.cell_len for cell in column]
        else:
            words += [min(len(word), _FOLDED) for cell in column for word in cell.split(" ")]
        widths.append(max(words, default=0))
        wanted.append(max(cell.cell_len for cell in (head, *column)))
    spare = room - _GAP * (len(widths) - 1) - sum(widths)
    for _ in range(spare):
        neediest = max(range(len(widths)), key=lambda index: wanted[index] - widths[index])
        widths[neediest] += wanted[neediest] > widths[neediest]
    return widths if spare >= 0 else []


def _looks_numeric(cell: str) -> bool:
    """Tell whether a cell holds a number, or a range of numbers."""
    ends = [end.strip(" -+%").replace(",", "").replace(".", "", 1) for end in cell.split(" to ")]
    return all(end.isdigit() for end in ends) or cell in ("", "-")
