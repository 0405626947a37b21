"""`nmt translate`: text to text."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from nmt.cli.options import Quiet

EXAMPLE = (
    "nmt translate run < news.en > news.de\n\n"
    "nmt translate averaged.safetensors --input news.en --output news.de --beam-size 5"
)

_SEARCH, _TEXT, _MACHINE = "Search", "Text", "Machine"


def translate(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL_OR_RUN", help="A model file, or a run folder: its best."),
    ],
    input_path: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="Text to translate.", show_default="stdin"),
    ] = None,
    output_path: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Where to write; appears when it is complete.",
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
    device: Annotated[
        str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=_MACHINE)
    ] = "auto",
    precision: Annotated[
        str, typer.Option(help="fp32, bf16 or fp16.", rich_help_panel=_MACHINE)
    ] = "fp32",
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="CPU threads.", show_default="all", rich_help_panel=_MACHINE),
    ] = None,
    batch_tokens: Annotated[
        int,
        typer.Option(
            min=1, help="Source tokens of a batch, padding counted.", rich_help_panel=_MACHINE
        ),
    ] = 4_096,
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
    """
    import torch

    from nmt import console
    from nmt.errors import UsageError, did_you_mean
    from nmt.models.device import DTYPES, choose_device
    from nmt.search.beam import SearchOptions
    from nmt.search.lines import LineReader
    from nmt.search.stream import render_n_best, render_scored, render_text, translate_stream
    from nmt.search.translator import Translator

    if n_best is not None and scores:
        raise UsageError("--n-best and --scores exclude each other: n-best lines hold scores")
    if precision not in DTYPES:
        raise UsageError(f"unknown precision {precision!r}{did_you_mean(precision, DTYPES)}")
    options = SearchOptions(
        beam_size=beam_size,
        n_best=n_best or 1,
        length_penalty=length_penalty,
        length_penalty_form=length_penalty_form,
        max_extra_tokens=max_extra_tokens,
    )
    if threads is not None:
        torch.set_num_threads(threads)
    with _open_input(input_path) as stream:
        name = str(input_path or "stdin")
        reader = LineReader(stream, name=name, encoding=encoding, strict=strict)
        translator = Translator.load(
            model,
            options,
            device=choose_device(device),
            dtype=DTYPES[precision],
            batch_tokens=batch_tokens,
        )
        total = _count_lines(input_path)
        render = render_n_best if n_best else render_scored if scores else render_text
        with (
            console.progress("translating", total=total, unit="lines") as bar,
            _open_output(output_path) as out,
        ):

            def write(data: bytes) -> None:
                out.write(data)
                out.flush()

            summary = translate_stream(
                translator,
                reader,
                write,
                render=render,
                pool_lines=pool_lines,
                on_progress=bar.update,
            )
    if reader.invalid_lines:
        console.warning(
            f"{name}: {reader.invalid_lines:,} lines are not valid {reader.encoding.name}, the "
            f"first is line {reader.first_invalid_line:,}; their bad bytes became U+FFFD"
        )
    if summary.cut_lines:
        console.warning(
            f"{name}: {summary.cut_lines:,} lines have more than {translator.max_src_tokens} "
            f"tokens, the first is line {summary.first_cut_line:,}; they were translated in pieces"
        )
    console.notice(f"{summary.lines_in:,} lines translated")


def _open_input(path: Path | None) -> contextlib.AbstractContextManager[BinaryIO]:
    return contextlib.nullcontext(sys.stdin.buffer) if path is None else path.open("rb")


def _open_output(path: Path | None) -> contextlib.AbstractContextManager[BinaryIO]:
    from nmt.errors import UsageError
    from nmt.files import atomic_writer

    if path is None:
        return contextlib.nullcontext(sys.stdout.buffer)
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder")
    if path.exists() and not path.is_file():  # a device or a named pipe, which cannot be replaced
        return path.open("wb")
    return atomic_writer(path)


def _count_lines(path: Path | None) -> int | None:
    if path is None or not path.is_file():  # a pipe, as in `--input <(zcat f)`, is read only once
        return None
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
