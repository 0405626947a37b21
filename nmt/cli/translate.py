"""`nmt translate`: text to text."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet, check_picture
from nmt.errors import EXIT_DONE, EXIT_FAILED, UsageError
from nmt.search.options import Sampling, SearchOptions
from nmt.translate.options import TranslateOptions, check_for_documents

if TYPE_CHECKING:
    from nmt.jobs.stream import Counts

EXAMPLES = (
    "nmt translate run < news.en > news.de",
    "nmt translate run --markup html --input page.html --output seite.html",
    "nmt translate run --terms terms.tsv --forbid words.txt < news.en",
    "nmt translate run --sample --n-best 16 --temperature 0.5 --mbr < news.en",
    "nmt translate run --context 3 --input in --output out --lock lock",
)


def translate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A model file, a run folder (its best model is used), or a CTranslate2 export.",
        ),
    ],
    *,
    search: SearchOptions,
    options: TranslateOptions,
    sampling: Sampling,
    quiet: Quiet = False,
) -> None:
    """Translate text. You get one line out for each line in, in the same order.

    No line is lost or shifted, whatever you give it. Blank lines stay blank, and lines without
    letters are copied. Invalid bytes become U+FFFD with a notice, and long lines are translated in
    segments. Lines end at the newline byte only. On a terminal, type a line to see its translation.

    With --input and --output, finished lines are recorded beside the output. If a job is stopped
    or killed, run the same command again and it goes on. A finished job ends at once. Unless
    you use --quiet, the last line on stderr is a summary in JSON. If a line cannot be translated,
    it is left empty and the exit status is 1. If one of several files fails, the others go on and
    the exit status is 1. It is 75 if other jobs hold some of the files.
    """
    from nmt.jobs.files import find_files
    from nmt.jobs.job import Job, converse, deadline
    from nmt.jobs.journal import open_locked
    from nmt.jobs.parallel import Translators
    from nmt.jobs.remote_files import RemoteOutput, local_inputs
    from nmt.markup.documents import common_form, form_of
    from nmt.remote import is_url, without_scheme
    from nmt.translate.setup import Setup

    if sampling != Sampling() and not options.sample:
        raise UsageError("--temperature, --top-k, --top-p and --seed are for --sample; add it")
    search = replace(
        search,
        n_best=options.n_best or 1,
        mbr=options.mbr_metric if options.mbr else None,
        sampling=sampling if options.sample else None,
    )
    setup = Setup(
        models=(model, *options.ensemble),
        options=search,
        src_lang=options.src_lang,
        tgt_lang=options.tgt_lang,
        precision=options.precision,
        shortlist=options.shortlist,
        terms=options.terms,
        forbid=options.forbid,
        alignment=options.alignment,
        split=options.split,
        markup=options.markup,
        context=options.context,
    )
    lists = (options.shortlist, options.terms, options.forbid, options.lock)
    also_read = [*setup.models, *filter(None, lists)]
    with contextlib.ExitStack() as leaving:
        if options.lock is not None:
            leaving.enter_context(open_locked(options.lock, options.lock))
        remote, output = None, without_scheme(options.output) if options.output else None
        if output is not None and is_url(output):
            remote = RemoteOutput.of(output, options.inputs)
            output = str(remote.path)
        inputs = leaving.enter_context(local_inputs(options.inputs))
        options = replace(options, inputs=inputs, output=output)
        files = find_files(options.inputs, options.output, also_read)
        sources = [source for source, _ in files] or [Path(one) for one in options.inputs]
        if any(map(form_of, sources)):
            check_for_documents(options)
            setup = replace(setup, markup=common_form(sources, options.markup))
        if options.deadline is not None and not files:
            raise UsageError(
                "--deadline needs --input and --output with files: what comes through a pipe "
                "cannot go on later"
            )
        is_terminal = all(one is not None and one.isatty() for one in (sys.stdin, sys.stdout))
        talks = is_terminal and not options.inputs and options.output is None
        if options.attention is not None:
            if files or options.output or talks:
                raise UsageError("--attention goes with one input, or a pipe, and output to stdout")
            check_picture(options.attention)
        if talks:
            options = replace(options, workers="1")
        leaving.enter_context(deadline(options.deadline))
        job = Job(
            setup,
            options,
            lambda kernel: leaving.enter_context(Translators.start(setup, options, kernel)),
            remote.synced if remote is not None else contextlib.nullcontext,
        )
        status = EXIT_DONE
        if talks:
            done = [converse(job)]
        elif files:
            done, status = job.translate_files(files)
        else:
            source = Path(options.inputs[0]) if options.inputs else None
            target = Path(options.output) if options.output is not None else None
            done = [job.translate_pipe(source, target)]
            if remote is not None:
                remote.move(remote.path)
    _summarize(done)
    if any(counts.failed_lines for counts in done):
        status = EXIT_FAILED
    raise typer.Exit(status)


def _summarize(done: Sequence[Counts]) -> None:
    seconds = sum(counts.seconds for counts in done)
    console.summary(
        {
            "lines_in": sum(counts.lines for counts in done),
            "lines_out": sum(counts.lines_out for counts in done),
            "split": sum(counts.split_lines for counts in done),
            "guarded": sum(counts.guarded_lines for counts in done),
            "decomposed": sum(counts.decomposed_lines for counts in done),
            "copied": sum(counts.copied_lines for counts in done),
            "fell_back": sum(counts.fell_back_lines for counts in done),
            "failed": sum(counts.failed_lines for counts in done),
            "seconds": round(seconds, 1),
            "tokens_per_second": round(sum(counts.tokens for counts in done) / max(seconds, 1e-9)),
        }
    )
