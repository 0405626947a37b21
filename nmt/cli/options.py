"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt import console


def _set_quiet(quiet: bool) -> bool:
    console.set_quiet(quiet)
    return quiet


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        callback=_set_quiet,
        help="No progress and no notices; warnings and errors stay.",
    ),
]
