#!/usr/bin/env python3
"""Make a data folder of a share of another one's training pairs.

    python share.py DATA SHARE OUT

The pairs are evenly spaced over the text. The vocabulary and the validation text stay the same, so
that you can compare perplexities at several shares.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.cli.command import run
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import Vocabulary
from nmt.errors import UsageError
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.options import PrepareOptions
from nmt.prepare.prepare import prepare

CHUNK = 100_000
CLEANED = ("control", "identical", "ratio", "symbols", "script", "overlap", "duplicate")
"""Cleaning rules that these pairs have passed before."""


def main() -> None:
    """Read the command line, and make the folder."""
    parser = argparse.ArgumentParser(
        description="Make a data folder of a share of another one's training pairs."
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a folder that nmt prepare wrote")
    parser.add_argument("share", type=float, metavar="SHARE", help="above 0 and below 1")
    parser.add_argument("out", type=Path, metavar="OUT", help="the data folder to make")
    given = parser.parse_args()
    make_share(given.data, given.share, given.out)


def make_share(path: Path, share: float, out: Path) -> DataFolder:
    """Write a share of the data folder at `path` to `out`.

    UsageError if that is not possible.
    """
    data = DataFolder.open(path)
    if not 0 < share < 1:
        raise UsageError(f"SHARE is {share}: must be above 0 and below 1")
    if any(corpus.weight != 1 or corpus.tag for corpus in data.info.train.corpora):
        raise UsageError(f"{path}: has corpora with weights or tags, which a share would lose")
    count = round(len(data.train) * share)
    chosen = np.arange(count) * len(data.train) // max(1, count)  # a half of 5: 0 and 2
    if not len(chosen):
        raise UsageError(f"{path}: a share of {share} of {len(data.train)} pairs is none")
    # The name stays the same, because prepare resumes only with text of the same name.
    text = out.with_name(f"{out.name}-text")
    text.mkdir(parents=True, exist_ok=True)
    try:
        for side, lang in enumerate(data.info.langs):
            with (text / f"train.{lang}").open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\n" for line in _lines(data, chosen, side))
        return prepare(out, *_options(data, text / "train"))
    finally:
        shutil.rmtree(text)


def _options(data: DataFolder, train: Path) -> tuple[PrepareOptions, CleaningOptions]:
    """Return the options for other training text with the settings of `data`."""
    settings = data.info.settings
    options = PrepareOptions(
        src_lang=data.info.langs[0],
        tgt_lang=data.info.langs[1],
        train=(str(train),),
        valid=(str(data.path / "valid"),),
        vocab=tuple(data.path / file.name for file in data.info.vocabulary.files),
        separate_vocab=not data.joint,
        moses_normalize=settings["moses_normalize"],
        moses_tokenize=settings["moses_tokenize"],
    )
    return options, CleaningOptions(max_length=data.info.max_length, keep=CLEANED)


def _lines(data: DataFolder, chosen: NDArray[np.int64], side: int) -> Iterator[str]:
    vocabulary: Vocabulary = (data.src_vocabulary, data.tgt_vocabulary)[side]
    for start in range(0, len(chosen), CHUNK):
        rows = data.train.rows(chosen[start : start + CHUNK])[side]
        ends = np.cumsum(rows.lengths)[:-1]
        yield from vocabulary.decode([ids.tolist() for ids in np.split(rows.ids, ends)])


if __name__ == "__main__":
    run(main)
