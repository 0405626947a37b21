"""Options of search, by the panels of their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SEARCH, _SAMPLING = "Search", "Sampling"

BeamSize = Annotated[
    int, typer.Option(min=1, help="Beam size. 1 is greedy search.", rich_help_panel=_SEARCH)
]
LengthPenalty = Annotated[
    float,
    typer.Option(min=0.0, help="Length penalty alpha. 0 switches it off.", rich_help_panel=_SEARCH),
]
LengthPenaltyForm = Annotated[
    str | None,
    typer.Option(
        help="wu is ((5 + len) / 6)^alpha, power is len^alpha.",
        show_default="wu; power for a CTranslate2 export, which has no other",
        rich_help_panel=_SEARCH,
    ),
]
MaxExtraTokens = Annotated[
    int,
    typer.Option(
        min=0,
        help="Limit translations to the length of the source plus this many tokens.",
        rich_help_panel=_SEARCH,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Limit translations to this many tokens.",
        show_default="no other limit",
        rich_help_panel=_SEARCH,
    ),
]
MinTokens = Annotated[
    int,
    typer.Option(min=0, help="Do not end translations with fewer tokens.", rich_help_panel=_SEARCH),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL_OR_RUN",
        help="Average the probabilities with those of this model, which has the same "
        "vocabularies. You can repeat it.",
        show_default="none",
    ),
]
Shortlist = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use only the target tokens on a shortlist, which can be faster. `nmt export "
        "shortlist` writes one.",
        show_default="all tokens",
        rich_help_panel=_SEARCH,
    ),
]
Sample = Annotated[
    bool,
    typer.Option(
        "--sample",
        help="Sample translations instead of searching for the best. With --n-best N, sample N "
        "for each line.",
        rich_help_panel=_SAMPLING,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Divide logits by this. Below 1, likely tokens are sampled more often.",
        show_default="1.0",
        rich_help_panel=_SAMPLING,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Sample from the K most probable tokens.",
        show_default="all",
        rich_help_panel=_SAMPLING,
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        help="Sample from the smallest set of tokens with at least this total probability.",
        show_default="1.0: all",
        rich_help_panel=_SAMPLING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Seed of sampling. A line's samples depend only on the seed and its text.",
        show_default="1",
        rich_help_panel=_SAMPLING,
    ),
]
