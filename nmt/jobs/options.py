"""The options of how a translation job runs: what it reads and writes, when, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nmt.config.fields import check, value
from nmt.models.device import DEVICES

_machine, _unattended = (partial(value, panel=panel) for panel in ("Machine", "Unattended"))


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How a job runs. None of this decides how a line is translated."""

    inputs: tuple[str, ...] = value(
        (),
        "A file, folder, glob or URL, also .gz, .xz, .bz2 or .zst. You can repeat "
        "it. Documents (.html, .xlf, .srt, .po, .json) stay documents. x.tsv:en is a column.",
        option="--input",
        short="-i",
        metavar="PATH|URL",
        shown="stdin",
    )
    output: str | None = value(
        None,
        "Where to write. A file appears when complete, compressed if its name ends in .gz, "
        ".xz, .bz2 or .zst. For several files, name a folder.",
        short="-o",
        metavar="PATH|URL",
        shown="stdout",
    )
    overwrite: bool = _unattended(
        False,
        "Replace outputs also if somebody has changed them since, or if nmt did not write what is "
        "in the folder.",
    )
    summary: bool = _unattended(
        False,
        "Write a summary in JSON as the last line on stderr. Jobs with --output do so unless you "
        "use --quiet or a terminal.",
    )
    device: str = value("auto", "Where to compute.", choices=DEVICES)
    attention: str | None = value(
        None,
        "Draw the attention of the first line with letters to its source, as a matrix. Only for "
        "output to stdout.",
        metavar="FILE.svg",
        panel="Text",
    )
    all_heads: bool = value(False, "With --attention, draw all layers and heads.", panel="Text")
    lock: Path | None = value(
        None,
        "Lock this file while running. If it is locked already, stop with status 75.",
        metavar="FILE",
        panel="Unattended",
    )
    deadline: str | None = _unattended(
        None,
        "Stop at this time of day with status 75. Needs --input and --output.",
        metavar="HH:MM",
    )
    time_limit: str | None = _unattended(
        None,
        "Stop after this time with status 75: minutes, 1h30m, HH:MM or H:MM:SS. Needs --input and "
        "--output.",
        metavar="TIME",
    )
    workers: str = _machine(
        "auto",
        "Number of processes. auto is one for each available core, or for each GPU. ray takes the "
        "cluster that RAY_ADDRESS names.",
        metavar="auto|N|ray",
    )
    threads: int | None = _machine(
        None,
        "CPU threads of each process.",
        minimum=1,
        maximum=1_024,
        shown="the cores, shared out; at most OMP_NUM_THREADS; 1 on Ray",
    )
    batch_tokens: int | None = _machine(
        None,
        "Source tokens in a batch, padding included. Fewer are taken if there are more than 4 "
        "hypotheses for a line, or if memory is short.",
        minimum=1,
        maximum=1_000_000_000,
        shown="1024 on a CPU, 16384 on a GPU; 512 for each worker of an export, 1024 if greedy",
    )
    pool_lines: int = _machine(
        4_096,
        "Read and sort at most this many lines at a time. Fewer are taken if they would take some "
        "seconds, or if a pipe pauses.",
        minimum=1,
    )

    def __post_init__(self) -> None:
        check(self)
