"""`nmt data`: what is in a data folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt import console
from nmt.cli.options import Quiet, argument
from nmt.config.fields import value
from nmt.errors import UsageError

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder
    from nmt.data.manifest import LengthRecord

EXAMPLES = (
    "nmt data data/multi30k",
    "nmt data data/multi30k --verify",
    "nmt data data/multi30k --show 0-9,28993",
)

_NUMBERS = re.compile("([0-9]{1,18})(?:-([0-9]{1,18}))?")


def data(
    folder: Annotated[Path, argument("DATA", "A folder that `nmt prepare` made.")],
    *,
    show: str | None = value(
        None,
        "Show only these training pairs, counted from 0: text, tokens, token ids, corpus "
        "and row. 7-9 means 7, 8 and 9.",
        metavar="N[,M]",
    ),
    verify: bool = value(False, "Check the checksum of every file."),
    quiet: Quiet = False,
) -> None:
    """Show what is in a data folder: pairs, tokens, vocabulary, and how many were dropped.

    The file `rejects.txt` in it has examples of pairs that were dropped.
    """
    from nmt.data.folder import DataFolder

    opened = DataFolder.open(folder, verify=verify)
    if verify:
        console.notice(f"{folder}: all {len(opened.info.files)} files are as they were written")
    if show is not None:
        for index in chain.from_iterable(_numbers(show, len(opened.train))):
            for field, content in _fields(opened, index):
                console.print_row(str(index), field, content)
        return
    for number, (title, columns, rows) in enumerate(_tables(opened)):
        if number:
            console.print_row()
        console.print_table(columns, rows, title=title)


_Table = tuple[str, Sequence[str], list[list[str]]]
"""A title, the names of the columns, and the rows."""


def _tables(folder: DataFolder) -> Iterator[_Table]:
    """Yield what `nmt data` shows of a folder."""
    info = folder.info
    columns = ["split", "pairs", "side", "tokens", "mean", "median", "longest"]
    rows = [
        [split.title, f"{split.pairs:,}", lang, *_lengths(side)]
        for split in info.splits
        for lang, side in zip(info.sides, (split.src, split.tgt), strict=True)
    ]
    yield "Splits, lengths in tokens", columns, rows
    yield from _tables_of_corpora(folder)
    if info.reads_annotations:
        origin, train = str(info.settings["annotations"]), info.train
        row = [origin, f"{train.annotations:,}", f"{train.annotated:,}"]
        yield "Annotations", ["from", "annotations", "pairs with some"], [row]
    if info.train.windows:
        rows = [[str(n), f"{count:,}"] for n, count in enumerate(info.train.windows, start=1)]
        yield "Windows of train", ["lines", "pairs"], rows
    yield _table_of_vocabularies(folder)


def _lengths(side: LengthRecord) -> list[str]:
    return [f"{side.tokens:,}", f"{side.mean:.1f}", str(side.median), str(side.longest)]


def _tables_of_corpora(folder: DataFolder) -> Iterator[_Table]:
    corpora = folder.info.train.corpora
    shares = folder.train.shares
    weights = [weight for _, weight in shares] if len(shares) > 1 else [1.0] * len(corpora)
    rules = list(dict.fromkeys(rule for corpus in corpora for rule in corpus.rejected))
    rows = [
        [corpus.prefix, f"{corpus.lines:,}", f"{corpus.kept:,}", f"{weight:.3g}", corpus.tag]
        + [f"{corpus.rejected.get(rule, 0):,}" for rule in rules]
        for corpus, weight in zip(corpora, weights, strict=True)
    ]
    yield "Training text", ["train", "lines", "kept", "weight", "tag", *rules], rows
    named = dict(zip(("src", "tgt"), folder.info.sides, strict=True))
    rows = [
        [
            corpus.prefix,
            named[flaw.side],
            flaw.kind,
            f"{flaw.lines:,}",
            f"{flaw.repaired:,}",
            flaw.example,
        ]
        for corpus in corpora
        for flaw in corpus.flaws
    ]
    if rows:
        columns = ["train", "side", "what", "lines", "repaired", "example"]
        yield "Entities and broken encodings", columns, rows


def _table_of_vocabularies(folder: DataFolder) -> _Table:
    from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

    origin = "given" if folder.info.vocabulary.given else "learnt"
    special = f"pad {PAD_ID}, unk {UNK_ID}, bos {BOS_ID}, eos {EOS_ID}"
    vocabularies = (folder.src_vocabulary, folder.tgt_vocabulary)
    sides = list(zip(folder.info.sides, vocabularies, strict=True))
    if folder.joint:
        sides = [("+".join(folder.info.sides), folder.src_vocabulary)]
    rows = [[name, f"{len(vocabulary):,}", origin, special] for name, vocabulary in sides]
    return "Vocabulary", ["vocabulary", "size", "origin", "special ids"], rows


def _numbers(text: str, pairs: int) -> list[range]:
    """Return the numbers in a list such as 7,9-12; UsageError if there are no such pairs."""
    ranges = []
    for part in text.split(","):
        if (match := _NUMBERS.fullmatch(part.strip())) is None:
            raise UsageError(f"--show {text}: give numbers of pairs, such as 7 or 7,12 or 7-12")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < pairs:
            raise UsageError(
                f"--show {text}: there is no pair {part}; train has {pairs:,} pairs, counted from 0"
            )
        ranges.append(range(first, last + 1))
    return ranges


def _fields(folder: DataFolder, index: int) -> Iterator[tuple[str, str]]:
    train, text = folder.train, folder.train_text
    number, row = train.origin(index)
    corpus = folder.info.train.corpora[number]
    yield "corpus", corpus.prefix
    yield "row", str(row)
    src, tgt = corpus.langs
    for lang, ids, vocabulary, raw in (
        (src, train.src(index), folder.src_vocabulary, text.src(index) if text else None),
        (tgt, train.tgt(index), folder.tgt_vocabulary, text.tgt(index) if text else None),
    ):
        numbers = ids.tolist()
        decoded = vocabulary.decode([numbers])[0]
        yield f"{lang} text", decoded if raw is None else raw.tobytes().decode()
        yield f"{lang} tokens", " ".join(vocabulary.tokens(numbers))
        yield f"{lang} ids", " ".join(map(str, numbers))
