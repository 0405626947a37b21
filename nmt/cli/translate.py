"""`nmt translate`: text to text."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.options import Quiet, check_picture
from nmt.cli.search_options import (
    BeamSize,
    Ensemble,
    LengthPenalty,
    LengthPenaltyForm,
    MaxExtraTokens,
    MaxTokens,
    MinTokens,
    Sample,
    Seed,
    Shortlist,
    Temperature,
    TopK,
    TopP,
)

if TYPE_CHECKING:
    from nmt.search.options import Sampling
    from nmt.translate.stream import Counts

EXAMPLES = (
    "nmt translate run < news.en > news.de",
    "nmt translate run --input news.en.gz --output news.de.gz --beam-size 5",
    "nmt translate run --input in --output out --lock lock --deadline 06:30",
)

_TEXT, _MACHINE, _JOB = "Text", "Machine", "Unattended"


def translate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A model file, a run folder (its best model is used), or a CTranslate2 export.",
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FILE|FOLDER|GLOB",
            help="Text to translate, plain or compressed (.gz, .xz, .bz2, .zst). You can repeat "
            "it.",
            show_default="stdin",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Where to write. A file appears when it is complete, compressed if its name ends "
            "so. If you give a folder, a glob or several inputs, name a folder.",
            show_default="stdout",
        ),
    ] = None,
    beam_size: BeamSize = 4,
    length_penalty: LengthPenalty = 0.6,
    length_penalty_form: LengthPenaltyForm = None,
    max_extra_tokens: MaxExtraTokens = 50,
    max_tokens: MaxTokens = None,
    min_tokens: MinTokens = 0,
    ensemble: Ensemble = None,
    shortlist: Shortlist = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="text|jsonl",
            help="jsonl writes a JSON object for each line, with tokens and log-probabilities.",
            rich_help_panel=_TEXT,
        ),
    ] = "text",
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write N translations of each line, best first, as `LINE ||| TEXT ||| SCORE` (the "
            "Moses form). Lines count from 0. In jsonl they are under `others`.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Write `SCORE<TAB>TEXT`.", rich_help_panel=_TEXT),
    ] = False,
    alignment: Annotated[
        bool,
        typer.Option(
            "--alignment",
            help="Write word alignments after the text, for example ` ||| 0-0 1-2`. They come from "
            "attention, and words count from 0. jsonl adds the attention.",
            rich_help_panel=_TEXT,
        ),
    ] = False,
    attention: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw the attention of the first line that is not blank. Only for output to "
            "stdout.",
            show_default="none",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            help="Split each line into sentences, translate them one by one, and join them.",
            rich_help_panel=_TEXT,
        ),
    ] = False,
    prefixes: Annotated[
        bool,
        typer.Option(
            "--prefixes",
            help="Read `SOURCE<TAB>PREFIX`. The translation begins with PREFIX.",
            rich_help_panel=_TEXT,
        ),
    ] = False,
    encoding: Annotated[
        str,
        typer.Option(
            help="Encoding of the input, unless it begins with a byte-order mark. Output is UTF-8.",
            rich_help_panel=_TEXT,
        ),
    ] = "utf-8",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Fail at the first line that is not in the encoding.",
            rich_help_panel=_TEXT,
        ),
    ] = False,
    lock: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Lock this file while running. If it is locked already, stop with status 75.",
            show_default="none",
            rich_help_panel=_JOB,
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="HH:MM",
            help="Stop at this time of day with status 75. Needs --input and --output.",
            show_default="none",
            rich_help_panel=_JOB,
        ),
    ] = None,
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Translate part I of N of a file's lines, for job arrays. Concatenate the "
            "outputs in "
            "order. Needs --input FILE, because the lines of a pipe cannot be counted first.",
            rich_help_panel=_JOB,
        ),
    ] = "1/1",
    device: Annotated[
        str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=_MACHINE)
    ] = "auto",
    precision: Annotated[
        str | None,
        typer.Option(
            help="Precision of matrix products. On a CPU: fp32, bf16 or int8. On a GPU: fp32, "
            "bf16 or fp16.",
            show_default="fp32; an export's own",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    workers: Annotated[
        str,
        typer.Option(
            metavar="auto|N",
            help="Number of processes. auto takes one for each available core, or for each GPU.",
            rich_help_panel=_MACHINE,
        ),
    ] = "auto",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_024,
            help="CPU threads of each process.",
            show_default="the cores, shared out; at most OMP_NUM_THREADS",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1_000_000_000,
            help="Source tokens in a batch, padding included. Fewer are taken if there are more "
            "than 4 hypotheses for a line, or if memory is short.",
            show_default="4096 on a CPU, 16384 on a GPU; 1024 for each worker of an export",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    pool_lines: Annotated[
        int,
        typer.Option(
            min=1,
            help="Read and sort at most this many lines at a time. Fewer are taken if they would "
            "take some seconds, or if a pipe pauses.",
            rich_help_panel=_MACHINE,
        ),
    ] = 4_096,
    quiet: Quiet = False,
) -> None:
    """Translate text. You get one line out for each line in, in the same order.

    No line is lost or shifted, whatever you give it. Blank lines stay blank, invalid bytes become
    U+FFFD with a notice, and long lines are translated in segments. Lines end at the newline byte
    only. On a terminal, type a line to see its translation.

    With --input and --output, finished lines are recorded beside the output. If a job is stopped
    or killed, run the same command again and it goes on. A finished job ends at once. The last
    line on stderr is a summary in JSON. If a line cannot be translated, it is left empty and the
    exit status is 1. If one of several files fails, the others go on and the exit status is 1. It
    is 75 if other jobs hold some of the files.
    """
    from nmt.data.corpus import Encoding
    from nmt.errors import EXIT_DONE, EXIT_FAILED, UsageError
    from nmt.interchange.ctranslate2_manifest import is_export
    from nmt.models.device import check_device
    from nmt.search.options import SearchOptions
    from nmt.translate.files import Shard, find_files
    from nmt.translate.job import Job, converse
    from nmt.translate.job import deadline as until
    from nmt.translate.journal import lock as hold
    from nmt.translate.parallel import Translators
    from nmt.translate.setup import Setup

    check_device(device)
    options = SearchOptions(
        beam_size=beam_size,
        n_best=n_best or 1,
        length_penalty=length_penalty,
        length_penalty_form=length_penalty_form or ("power" if is_export(model) else "wu"),
        max_extra_tokens=max_extra_tokens,
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        sampling=_sampling(sample, temperature, top_k, top_p, seed),
    )
    setup = Setup(
        models=(model, *(ensemble or [])),
        shortlist=shortlist,
        options=options,
        precision=precision,
        alignment=alignment,
        split=split,
    )
    also_read = [*setup.models, *([shortlist] if shortlist else []), *([lock] if lock else [])]
    files = find_files(inputs or [], output, also_read)
    if deadline is not None and not files:
        raise UsageError(
            "--deadline needs --input and --output with files: what comes through a pipe cannot "
            "go on later"
        )
    streams = sys.stdin, sys.stdout
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    talks = is_terminal and not inputs and output is None
    picture = None
    if attention is not None:
        if files or output or talks:
            raise UsageError("--attention goes with one input, or a pipe, and output to stdout")
        picture = check_picture(attention)
    with contextlib.ExitStack() as leaving:
        if lock is not None:
            hold(leaving.enter_context(lock.open("ab")), lock)
        leaving.enter_context(until(deadline))
        start = functools.partial(
            Translators.start,
            setup,
            device=device,
            workers="1" if talks else workers,
            threads=threads,
            batch_tokens=batch_tokens,
        )
        job = Job(
            setup=setup,
            start=lambda kernel: leaving.enter_context(start(kernel=kernel)),
            encoding=Encoding.find(encoding),
            strict=strict,
            prefixes=prefixes,
            form=_form(form, n_best, scores, alignment),
            pool_lines=pool_lines,
            shard=Shard.parse(shard),
            attention=picture,
        )
        status = EXIT_DONE
        if talks:
            done = [converse(job)]
        elif files:
            done, status = job.translate_files(files)
        else:
            source = Path(inputs[0]) if inputs else None
            done = [job.translate_pipe(source, Path(output) if output is not None else None)]
    _summarize(done)
    if any(counts.failed_lines for counts in done):
        status = EXIT_FAILED
    raise typer.Exit(status)


def _sampling(
    sample: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
) -> Sampling | None:
    from nmt.errors import UsageError
    from nmt.search.options import Sampling

    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    given = {name: value for name, value in given.items() if value is not None}
    if sample:
        return Sampling(**given)  # type: ignore[arg-type]  # floats and integers as they are named
    if given:
        name = next(iter(given)).replace("_", "-")
        raise UsageError(f"--{name} says how to draw at random; add --sample")
    return None


def _form(form: str, n_best: int | None, scores: bool, alignment: bool) -> str:
    """Return the name of the form in which lines are written."""
    from nmt.errors import UsageError, did_you_mean

    if form not in ("text", "jsonl"):
        raise UsageError(f"unknown format {form!r}{did_you_mean(form, ('text', 'jsonl'))}")
    if form == "jsonl":
        if scores:
            raise UsageError("--scores is for text; jsonl has them")
        return form
    given = {"n-best": n_best is not None, "scores": scores, "alignment": alignment}
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(
            "--n-best, --scores and --alignment each have a form of their own; for all of them "
            "use --format jsonl"
        )
    return chosen[0] if chosen else "text"


def _summarize(done: list[Counts]) -> None:
    """Say in a line of JSON what has been done."""
    from nmt import console

    seconds = sum(counts.seconds for counts in done)
    console.summary(
        {
            "lines_in": sum(counts.lines for counts in done),
            "lines_out": sum(counts.lines_out for counts in done),
            "split": sum(counts.split_lines for counts in done),
            "failed": sum(counts.failed_lines for counts in done),
            "seconds": round(seconds, 1),
            "tokens_per_second": round(sum(counts.tokens for counts in done) / max(seconds, 1e-9)),
        }
    )
