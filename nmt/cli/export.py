"""`nmt export`: a model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.options import Quiet

EXAMPLE = (
    "nmt export ctranslate2 averaged.safetensors fast --quantization int8\n\n"
    "nmt translate fast --engine ctranslate2 --length-penalty-form power < news.en > news.de"
)


def export(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="ctranslate2.")],
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL_OR_RUN", help="A model file, or a run folder: its best."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    quantization: Annotated[
        str,
        typer.Option(
            help="Of the weights: float32, float16, bfloat16, int8, int16 or int8_float16. float32 "
            "and int8 are for CPUs.",
        ),
    ] = "float32",
    quiet: Quiet = False,
) -> None:
    """Write a model for another engine.

    CTranslate2 (the extra `nmt[ctranslate2]`) is an engine in C++ for CPUs and GPUs. What is
    written can be used by its own programs, and by `nmt translate --engine ctranslate2`, with the
    same reading and writing of lines as ever. The folder appears when it is complete; an earlier
    export of that name is replaced.
    """
    from nmt import console
    from nmt.errors import UsageError, did_you_mean
    from nmt.models.ctranslate2_export import export_ctranslate2

    formats = ("ctranslate2",)
    if form not in formats:
        raise UsageError(f"unknown format {form!r}{did_you_mean(form, formats)}")
    if not out.resolve().parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder")
    export_ctranslate2(model, out, quantization)
    console.notice(f"{out}: {model} for CTranslate2, in {quantization}")
