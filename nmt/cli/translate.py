"""`nmt translate`: text to text."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from nmt.cli.options import Quiet

if TYPE_CHECKING:
    from nmt.data.workers import Pause
    from nmt.search.job import Job
    from nmt.search.stream import Counts

EXAMPLE = (
    "nmt translate run < news.en > news.de\n\n"
    "nmt translate averaged.safetensors --input news.en.gz --output news.de.gz --beam-size 5\n\n"
    "nmt translate run --input incoming --output translated --lock nightly.lock --deadline 06:30"
)

_SEARCH, _TEXT, _MACHINE, _JOB = "Search", "Text", "Machine", "Unattended"


def translate(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL_OR_RUN", help="A model file, or a run folder: its best."),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FILE|FOLDER|GLOB",
            help="Text to translate, plain or compressed (.gz, .xz, .bz2, .zst); may be repeated.",
            show_default="stdin",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="Where to write; a file appears when it is complete, compressed if its name says "
            "so. For a folder, a glob or several inputs a folder, of files of the same names.",
            show_default="stdout",
        ),
    ] = None,
    beam_size: Annotated[
        int, typer.Option(min=1, help="Beam size; 1 is greedy.", rich_help_panel=_SEARCH)
    ] = 4,
    length_penalty: Annotated[
        float,
        typer.Option(min=0.0, help="Length penalty alpha; 0: none.", rich_help_panel=_SEARCH),
    ] = 0.6,
    length_penalty_form: Annotated[
        str,
        typer.Option(help="wu: ((5+len)/6)^alpha; power: len^alpha.", rich_help_panel=_SEARCH),
    ] = "wu",
    max_extra_tokens: Annotated[
        int,
        typer.Option(
            min=0,
            help="A translation has at most this many tokens more than its source.",
            rich_help_panel=_SEARCH,
        ),
    ] = 50,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write N lines for each input line: `LINE ||| TEXT ||| SCORE`, lines from 0, best "
            "first (the Moses form).",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Write `SCORE<TAB>TEXT`.", rich_help_panel=_SEARCH),
    ] = False,
    encoding: Annotated[
        str, typer.Option(help="Encoding of the input; output is UTF-8.", rich_help_panel=_TEXT)
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
            help="Hold this file locked; if another process does, end at once with status 75.",
            show_default="none",
            rich_help_panel=_JOB,
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="HH:MM",
            help="Stop at this time of day with status 75; needs --input and --output.",
            show_default="none",
            rich_help_panel=_JOB,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=_MACHINE)
    ] = "auto",
    precision: Annotated[
        str,
        typer.Option(
            help="Of matrix products. CPU: fp32, bf16 (fast where the CPU has it) or int8; GPU: "
            "fp32, bf16 or fp16.",
            rich_help_panel=_MACHINE,
        ),
    ] = "fp32",
    workers: Annotated[
        str,
        typer.Option(
            metavar="auto|N",
            help="Processes side by side. auto: one for each core, or for each GPU.",
            rich_help_panel=_MACHINE,
        ),
    ] = "auto",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU threads of each process.",
            show_default="the cores, shared out",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Source tokens at work at a time, padding counted; halved by itself where memory "
            "is short.",
            show_default="4096 on a CPU, 16384 on a GPU",
            rich_help_panel=_MACHINE,
        ),
    ] = None,
    pool_lines: Annotated[
        int,
        typer.Option(
            min=1,
            help="Lines read and sorted by length at a time; a pipe that falls silent is answered "
            "at once.",
            rich_help_panel=_MACHINE,
        ),
    ] = 4_096,
    quiet: Quiet = False,
) -> None:
    """Translate text, one line out for each line in, in order.

    Lines end at the newline byte only, and the output ends its lines as the input does. Blank lines
    stay blank, invalid bytes become U+FFFD with a notice, over-long lines are translated in pieces:
    whatever comes in, no line is lost or shifted.

    With --input and --output, what has been done is kept beside the output: a job that was stopped
    or killed goes on where it was when the same command is run again, and one that was finished,
    for the same input, model and options, ends at once. The last line on stderr is a summary in
    JSON. A line that cannot be translated is left empty, and the exit status is 1.
    """
    from nmt import console
    from nmt.data.corpus import Encoding
    from nmt.errors import EXIT_FAILED, DataError, UsageError
    from nmt.models.model_file import model_checksum
    from nmt.search.deadline import deadline as until
    from nmt.search.job import Job
    from nmt.search.journal import lock as hold
    from nmt.search.options import SearchOptions
    from nmt.search.stream import render_n_best, render_scored, render_text
    from nmt.search.translators import Translators

    if n_best is not None and scores:
        raise UsageError("--n-best and --scores exclude each other: n-best lines hold scores")
    options = SearchOptions(
        beam_size=beam_size,
        n_best=n_best or 1,
        length_penalty=length_penalty,
        length_penalty_form=length_penalty_form,
        max_extra_tokens=max_extra_tokens,
    )
    files = _find_files(inputs or [], output)
    if deadline is not None and not files:
        raise UsageError(
            "--deadline needs --input and --output with files: what comes through a pipe cannot "
            "go on later"
        )
    with contextlib.ExitStack() as leaving:
        if lock is not None:
            hold(leaving.enter_context(lock.open("ab")), lock)
        leaving.enter_context(until(deadline))
        job = Job(
            translators=functools.cache(
                lambda: leaving.enter_context(
                    Translators.start(
                        model,
                        options,
                        device=device,
                        precision=precision,
                        workers=workers,
                        threads=threads,
                        batch_tokens=batch_tokens,
                    )
                )
            ),
            encoding=Encoding.find(encoding),
            strict=strict,
            render=render_n_best if n_best else render_scored if scores else render_text,
            pool_lines=pool_lines,
        )
        identity = {
            "model": model_checksum(model),
            "options": dataclasses.asdict(options),
            "precision": precision,
            "encoding": job.encoding.name,
            "strict": strict,
            "form": job.render.__name__,
        }
        done: list[Counts] = []
        failed = False
        for source, target in files:
            try:
                done.append(job.translate_file(source, target, identity))
            except DataError as error:
                if len(files) == 1:
                    raise
                console.error(str(error))  # which is no reason to leave out the other files
                failed = True
        if not files:
            done = [_translate_pipe(job, Path(inputs[0]) if inputs else None, output)]
    _summarize(done)
    if failed or any(counts.failed_lines for counts in done):
        raise typer.Exit(EXIT_FAILED)


def _find_files(inputs: list[str], output: Path | None) -> list[tuple[Path, Path]]:
    """Return which files are to be translated to which; none where a pipe or device is among them.

    Raises:
        UsageError: if there is nothing to read, or no place to write to.
    """
    from nmt.errors import UsageError

    sources = [source for given in inputs for source in _expanded(given)]
    if inputs and not sources:
        raise UsageError(f"--input {' '.join(inputs)}: there are no files")
    if sources != [Path(given) for given in inputs[:1]]:
        if output is None or output.is_file():
            raise UsageError("several inputs need a folder to write to: --output FOLDER")
        for source in sources:
            if source.exists() and not source.is_file():
                raise UsageError(f"{source}: several inputs must be files, which can be read twice")
        twice = [path.name for path in sources if [p.name for p in sources].count(path.name) > 1]
        if twice:
            raise UsageError(f"--input: two files have the name {twice[0]}, and so would outputs")
        output.mkdir(exist_ok=True)
        return [(source, _other(source, output / source.name)) for source in sources]
    if output is None:
        return []
    if output.is_dir():
        output /= sources[0].name if sources else "stdin"
    if not output.parent.is_dir():
        raise UsageError(f"{output.parent}: no such folder")
    if not (sources and sources[0].is_file()) or (output.exists() and not output.is_file()):
        return []
    return [(sources[0], _other(sources[0], output))]


def _expanded(given: str) -> list[Path]:
    path = Path(given)
    if path.is_dir():
        files = [entry for entry in path.iterdir() if entry.is_file()]
        return sorted(entry for entry in files if not entry.name.startswith("."))
    if path.exists() or not glob.has_magic(given):
        return [path]
    matches = (Path(match) for match in glob.glob(given))  # noqa: PTH207 - it may be absolute
    return sorted(match for match in matches if match.is_file())


def _other(source: Path, output: Path) -> Path:
    from nmt.errors import UsageError

    if output.exists() and output.samefile(source):
        raise UsageError(f"{output}: the output would replace the input")
    return output


def _translate_pipe(job: Job, source: Path | None, output: Path | None) -> Counts:
    """Translate what cannot be read or written twice: from or to a pipe or a device."""
    from nmt.data.compressed import is_compressed
    from nmt.data.corpus import read_chunks
    from nmt.errors import UsageError
    from nmt.files import atomic_writer
    from nmt.search.lines import pipe_chunks

    if output is not None and is_compressed(output):
        raise UsageError(
            f"{output}: what comes through a pipe is not compressed; use `| gzip > FILE`"
        )
    with contextlib.ExitStack() as leaving:
        chunks: Iterator[bytes | Pause]
        if source is None or not source.is_file():
            stream = sys.stdin.buffer if source is None else source.open("rb")
            chunks = pipe_chunks(leaving.enter_context(stream), job.encoding)
        else:
            chunks = read_chunks(source, job.encoding, any_bytes=True)
        out: BinaryIO
        if output is None:
            out = sys.stdout.buffer
        elif output.exists() and not output.is_file():
            out = leaving.enter_context(output.open("wb"))
        else:
            out = leaving.enter_context(atomic_writer(output))

        def write(data: bytes) -> None:
            out.write(data)
            out.flush()

        return job.translate_pipe(chunks, str(source or "stdin"), write)


def _summarize(done: list[Counts]) -> None:
    """Say in a line of JSON what has been done."""
    from nmt import console

    seconds = sum(counts.seconds for counts in done)
    console.summary(
        {
            "lines_in": sum(counts.lines for counts in done),
            "lines_out": sum(counts.lines_out for counts in done),
            "split": sum(counts.cut_lines for counts in done),
            "failed": sum(counts.failed_lines for counts in done),
            "seconds": round(seconds, 1),
            "tokens_per_second": round(sum(counts.tokens for counts in done) / max(seconds, 1e-9)),
        }
    )
