"""`nmt translate`: text to text."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet, argument, check_picture
from nmt.errors import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, UsageError
from nmt.jobs.options import JobOptions
from nmt.translate.contradictions import (
    COLUMNS,
    FILES,
    TERMINAL,
    options_given,
    refuse_contradictions,
)
from nmt.translate.options import TranslationConfig

if TYPE_CHECKING:
    from nmt.jobs.counts import Counts

EXAMPLES = (
    "nmt translate run < news.en > news.de",
    "nmt translate run --input page.html --output seite.html",
    "nmt translate run --terms terms.tsv < news.en",
    "nmt translate run --sample --n-best 16 --temperature 0.5 < news.en",
    "nmt translate run --context 3 --input in --output out --lock lock",
)


def translate(
    model: Annotated[
        Path,
        argument(
            "MODEL",
            "A model file, a run folder (its best model is used), a CTranslate2 export, or a "
            "folder of Hugging Face, which is imported once.",
        ),
    ],
    *,
    job: JobOptions,
    config: TranslationConfig,
    quiet: Quiet = False,
) -> None:
    """Translate text. You get one line out for each line in, in the same order.

    No line is lost or shifted, whatever you give it. Blank lines stay blank, and lines without
    letters are copied. Invalid bytes become U+FFFD with a notice, and long lines are translated in
    segments. Lines end at the newline byte only. On a terminal, type a line to see its translation.

    With --input and --output, finished lines are recorded beside the output. If a job is stopped
    or killed, run the same command again and it goes on. A finished job ends at once. Outputs that
    you have corrected stay. A line that cannot be translated is left empty, and a file that fails
    does not stop the others. Then the exit status is 1, or 75 if other jobs hold some files.
    """
    from nmt.jobs.deadline import stopped_in_time
    from nmt.jobs.file_pairs import find_files
    from nmt.jobs.job import Job
    from nmt.jobs.journal import open_locked
    from nmt.jobs.parallel import Translators
    from nmt.jobs.remote_files import RemoteOutput, local_inputs
    from nmt.jobs.table_job import take_columns
    from nmt.jobs.terminal import converse
    from nmt.system.remote import is_url, without_scheme

    config = replace(config, models=(model, *config.ensemble), ensemble=()).opened()
    job, columns = take_columns(job)
    also_read = [*config.models, *config.lists.values(), *filter(None, [job.lock])]
    with contextlib.ExitStack() as leaving:
        if job.lock is not None:
            leaving.enter_context(open_locked(job.lock, job.lock))
        remote, output = None, without_scheme(job.output) if job.output else None
        if output is not None and is_url(output):
            remote = RemoteOutput.made_for(output, job.inputs)
            output = str(remote.path)
        job = replace(job, inputs=leaving.enter_context(local_inputs(job.inputs)), output=output)
        files = find_files(job.inputs, job.output, also_read)
        is_terminal = all(
            stream is not None and stream.isatty() for stream in (sys.stdin, console.stdout())
        )
        talks = is_terminal and not job.inputs and job.output is None
        if columns and not files:
            raise UsageError("columns go from a file to a file; name two files")
        circumstances = {FILES: bool(files), TERMINAL: talks, COLUMNS: columns is not None}
        holding = {name: name for name, holds in circumstances.items() if holds}
        given = config.given | options_given(job) | holding
        refuse_contradictions(given)
        if job.attention is not None:
            check_picture(job.attention)
        if talks:
            job = replace(job, workers="1")
        leaving.enter_context(stopped_in_time(job.time_limit, job.deadline))
        work = Job(
            config,
            job,
            given,
            lambda kernel: leaving.enter_context(Translators.start(config, job, kernel)),
            remote.synced if remote is not None else contextlib.nullcontext,
            columns,
        )
        failed = held = 0  # files
        if talks:
            done = [converse(work.translators().translator)]
        elif files:
            done, failed, held = work.translate_files(files)
        else:
            source = Path(job.inputs[0]) if job.inputs else None
            target = Path(job.output) if job.output is not None else None
            done = [work.translate_pipe(source, target)]
            if remote is not None:
                remote.move(remote.path)
    has_text, has_terms = (any(map(attrgetter(name), done)) for name in ("tokens", "with_terms"))
    if config.terms and has_text and not (has_terms or talks):
        console.warning(
            f"{config.terms}: none of its terms is in any line; are its columns swapped? A term "
            "with a capital is only found as written"
        )
    if config.memory and has_text and not (any(counts.remembered for counts in done) or talks):
        console.warning(f"{config.memory}: none of its sources is a line or unit, word for word")
    if output is not None and not job.summary and console.is_terminal():
        lines = console.counted(sum(counts.lines for counts in done), "line", "lines")
        console.notice(f"{lines} in {console.duration(sum(counts.seconds for counts in done))}")
    elif job.summary or output is not None:
        _summarize(done, failed, with_quiet=job.summary)
    if failed or any(counts.failed.lines for counts in done):
        raise typer.Exit(EXIT_FAILED)
    raise typer.Exit(EXIT_STOPPED if held else EXIT_DONE)


def _summarize(done: Sequence[Counts], failed_files: int, *, with_quiet: bool) -> None:
    seconds = sum(counts.seconds for counts in done)
    quality = {}
    if characters := sum(counts.characters for counts in done):
        chrf = sum(counts.chrf for counts in done) / characters
        quality = {"chrf": round(chrf, 1), "unusual": sum(counts.unusual for counts in done)}
    console.summary(
        {
            "lines_in": sum(counts.lines for counts in done),
            "lines_out": sum(counts.lines_out for counts in done),
            "split": sum(counts.split for counts in done),
            "guarded": sum(counts.guarded for counts in done),
            "decomposed": sum(counts.decomposed.lines for counts in done),
            "copied": sum(counts.copied for counts in done),
            "remembered": sum(counts.remembered for counts in done),
            "fell_back": sum(counts.fell_back.lines for counts in done),
            **quality,
            "failed": sum(counts.failed.lines for counts in done),
            "failed_files": failed_files,
            "edited": sum(counts.edited for counts in done),
            "seconds": round(seconds, 1),
            "tokens_per_second": round(sum(counts.tokens for counts in done) / max(seconds, 1e-9)),
        },
        with_quiet=with_quiet,
    )
