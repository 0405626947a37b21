"""`nmt join`: several data folders to one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet
from nmt.config.fields import value
from nmt.errors import UsageError

EXAMPLES = ("nmt join data part-1 part-2 part-3", "nmt join data part-* --memory 0.5")


def join(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Data folder to make.")],
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA...", help="Two or more folders that `nmt prepare` made."),
    ],
    *,
    memory: float = value(
        2.0,
        "Memory for finding pairs that repeat. With less of it, `join` reads the hashes more "
        "often. The result does not depend on it.",
        metavar="GB",
        minimum=0.001,
    ),
    quiet: Quiet = False,
) -> None:
    """Join data folders that were prepared apart, such as by the tasks of a job array.

    They need one vocabulary (`nmt prepare --vocab`), the same options, and the same valid and test
    sets. Training pairs that repeat a pair of an earlier folder are dropped.
    """
    from nmt.prepare.join import join as run

    if len(data) < 2:
        raise UsageError("give two or more data folders to join")
    train = run(out, data, memory=memory).info.train
    dropped = sum(corpus.rejected.get("duplicate", 0) for corpus in train.corpora)
    console.notice(
        f"{out} is ready: {train.pairs:,} pairs of {len(train.corpora)} texts; {dropped:,} "
        "duplicates were dropped, here or before"
    )
