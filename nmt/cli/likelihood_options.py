"""Options of `nmt score` that ask a model; unset where the command line does not name them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = (
    "nmt score test.de --source test.en --model run\n\n"
    "nmt translate run --n-best 10 < test.en | nmt score - --rerank --source test.en --model big"
)

_PANEL = "By a model"

Models = Annotated[
    list[Path] | None,
    typer.Option(
        "--model",
        metavar="MODEL_OR_RUN",
        help="Add the perplexity of REFERENCE, and of HYPOTHESIS where one is named, under this "
        "model. Of several the mean of their probabilities counts, as in an ensemble.",
        show_default="none",
        rich_help_panel=_PANEL,
    ),
]
Tokens = Annotated[
    bool,
    typer.Option(
        "--tokens",
        help="Print a JSON object for each line of REFERENCE instead, with tokens and their "
        "log-probabilities, as `nmt translate --format jsonl` does.",
        rich_help_panel=_PANEL,
    ),
]
Rerank = Annotated[
    bool,
    typer.Option(
        "--rerank",
        help="REFERENCE, or - for stdin, is an n-best list, `LINE ||| TEXT ||| SCORE`: print it "
        "with the model's scores, each line's best first.",
        rich_help_panel=_PANEL,
    ),
]
Weight = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        help="W of the model's scores in --rerank; those of the list weigh 1 - W.",
        show_default="1.0",
        rich_help_panel=_PANEL,
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Length penalty alpha of scores; 0: none, they are log-probabilities.",
        show_default="0.6",
        rich_help_panel=_PANEL,
    ),
]
LengthPenaltyForm = Annotated[
    str | None,
    typer.Option(
        help="wu: ((5 + len) / 6)^alpha; power: len^alpha.",
        show_default="wu",
        rich_help_panel=_PANEL,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="auto, cpu or cuda.", show_default="auto", rich_help_panel=_PANEL),
]
Precision = Annotated[
    str | None,
    typer.Option(
        help="Of matrix products. CPU: fp32, bf16 or int8; GPU: fp32, bf16 or fp16.",
        show_default="fp32",
        rich_help_panel=_PANEL,
    ),
]
