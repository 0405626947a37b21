"""The command line of a run: recorded in its folder, and given to the processes that train."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainCommand:
    """What a user gave to `nmt train`."""

    data: Path
    out: Path
    init_from: Path | None = None
    model: str | None = None
    config: Path | None = None
    settings: tuple[str, ...] = ()
    """The words of all other options."""
    reason: str = ""
    """Why it trains in one process, if it does."""

    def __str__(self) -> str:
        """Return the command for a shell."""
        return shlex.join(("nmt", *self.words))

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments of `nmt`."""
        words = ["train", str(self.data), "--out", str(self.out)]
        named = {"--init-from": self.init_from, "--model": self.model, "--config": self.config}
        for option, given in named.items():
            words += [] if given is None else [option, str(given)]
        return (*words, *self.settings)
