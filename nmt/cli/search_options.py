"""Options of search, by the panels of their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SEARCH, _SAMPLING = "Search", "Sampling"

BeamSize = Annotated[
    int, typer.Option(min=1, help="Beam size; 1 is greedy.", rich_help_panel=_SEARCH)
]
LengthPenalty = Annotated[
    float,
    typer.Option(min=0.0, help="Length penalty alpha; 0: none.", rich_help_panel=_SEARCH),
]
LengthPenaltyForm = Annotated[
    str | None,
    typer.Option(
        help="wu: ((5 + len) / 6)^alpha; power: len^alpha.",
        show_default="wu; power for a CTranslate2 export, which has no other",
        rich_help_panel=_SEARCH,
    ),
]
MaxExtraTokens = Annotated[
    int,
    typer.Option(
        min=0,
        help="A translation has at most this many tokens more than its source.",
        rich_help_panel=_SEARCH,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="A translation has at most this many tokens.",
        show_default="no other limit",
        rich_help_panel=_SEARCH,
    ),
]
MinTokens = Annotated[
    int,
    typer.Option(
        min=0, help="A translation has at least this many tokens.", rich_help_panel=_SEARCH
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL_OR_RUN",
        help="Another model that translates together with the first, of the same vocabularies: "
        "the mean of their probabilities counts. May be repeated.",
        show_default="none",
        rich_help_panel=_SEARCH,
    ),
]
Shortlist = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Make translations of the tokens on a shortlist alone, which is faster; `nmt export "
        "shortlist` writes one.",
        show_default="all tokens",
        rich_help_panel=_SEARCH,
    ),
]
Sample = Annotated[
    bool,
    typer.Option(
        "--sample",
        help="Draw translations at random instead of searching for the best; --n-best N draws "
        "N of each line.",
        rich_help_panel=_SAMPLING,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Logits are divided by it: below 1, what is likely is drawn more often.",
        show_default="1.0",
        rich_help_panel=_SAMPLING,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Draw among the K likeliest tokens.",
        show_default="all",
        rich_help_panel=_SAMPLING,
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        help="Draw among the fewest tokens that have this probability together.",
        show_default="1.0: all",
        rich_help_panel=_SAMPLING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="A line's samples follow from the seed and its text alone.",
        show_default="1",
        rich_help_panel=_SAMPLING,
    ),
]
