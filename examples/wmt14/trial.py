"""How long an update takes on this machine's GPU: measured, before there is any text to train on.

Text is made up for it. What an update costs depends on the number of its tokens, which the recipe
fixes, and hardly on which they are or how long their sentences.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from nmt.config import Recipe
from nmt.cpu import cores
from nmt.data.manifest import Settings
from nmt.prepare.options import PrepareOptions
from nmt.prepare.prepare import prepare
from nmt.training.dry_run import dry_run

PAIRS = 30_000
WORDS = 60_000
MEAN_LENGTH = 24  # words of a sentence
LONGEST = 150


@dataclass(frozen=True)
class Trial:
    """What some seconds of training have shown."""

    device: str
    seconds_an_update: float
    memory: str


def measure(recipe: Recipe, vocab_size: int, *, pairs: int = PAIRS) -> Trial:
    """Train for some seconds in memory, as `nmt train --dry-run` does, on one device.

    Raises:
        NMTError: if it does not train here, such as for lack of memory.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder / "text", pairs)
        prepare(
            PrepareOptions(
                out=folder / "data",
                train=(str(folder / "text"),),
                valid=str(folder / "text"),
                settings=Settings(
                    src_lang="xx", tgt_lang="yy", vocab_size=vocab_size, keep=("overlap",)
                ),
                workers=cores(),
            )
        )
        rows = dict(dry_run(recipe, folder / "data", folder / "run"))
    return Trial(
        device=rows["device"].rpartition(", ")[0],  # its threads follow
        seconds_an_update=float(rows["time an update"].removesuffix(" s").replace(",", "")),
        memory=rows["memory, measured"],
    )


def write_text(prefix: Path, pairs: int) -> None:
    """Write PREFIX.xx and PREFIX.yy: the n-th of many made-up words is as frequent as 1/n."""
    random = np.random.default_rng(1)
    words = made_up_words(random)
    chances = 1 / np.arange(1, len(words) + 1)
    chances /= chances.sum()
    lengths = random.lognormal(math.log(MEAN_LENGTH), 0.5, pairs).clip(1, LONGEST).astype(int)
    for lang in ("xx", "yy"):
        drawn = random.choice(words, int(lengths.sum()), p=chances)
        lines = np.split(drawn, np.cumsum(lengths)[:-1])
        text = "".join(f"{' '.join(line)}\n" for line in lines)
        Path(f"{prefix}.{lang}").write_text(text, encoding="utf-8")


def made_up_words(random: Generator) -> NDArray[np.str_]:
    """Return different words of three syllables."""
    syllables = np.array([a + b for a in "bdfghklmnprstvz" for b in "aeiou"])
    count = len(syllables)
    numbers = random.choice(count**3, WORDS, replace=False)  # each is a word, to the base of 75
    first, second, third = (syllables[numbers // count**place % count] for place in (2, 1, 0))
    return np.char.add(np.char.add(first, second), third)
