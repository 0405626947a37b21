"""`nmt data`: what is in a data folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet, check_picture
from nmt.config.fields import value
from nmt.errors import UsageError
from nmt.system.files import write_text

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder

EXAMPLES = (
    "nmt data data/multi30k",
    "nmt data data/multi30k --verify",
    "nmt data data/multi30k --show 0-9,28993",
)

_BAR_WIDTH = 40
_MOST_BINS = 16
_NUMBERS = re.compile("([0-9]{1,18})(?:-([0-9]{1,18}))?")


def data(
    folder: Annotated[
        Path, typer.Argument(metavar="DATA", help="A folder that `nmt prepare` made.")
    ],
    *,
    examples: int = value(3, "Show this many training pairs, with their subwords.", minimum=0),
    show: str | None = value(
        None,
        "Show only these training pairs, counted from 0: text, tokens, token ids, corpus "
        "and row. 7-9 means 7, 8 and 9.",
        metavar="N[,M]",
    ),
    rejects: bool = value(False, "Show which pairs cleaning dropped, with examples."),
    batch_tokens: int | None = value(
        None,
        "Show how many updates of this size an epoch has.",
        metavar="TOKENS",
        minimum=1,
        maximum=1_000_000_000,
    ),
    svg: str | None = value(
        None, "Draw the lengths of the training sentences.", metavar="FILE.svg"
    ),
    verify: bool = value(False, "Check the checksum of every file."),
    quiet: Quiet = False,
) -> None:
    """Show what is in a data folder: pairs, tokens, lengths, vocabulary, and what was dropped."""
    from nmt.data.folder import DataFolder

    picture = check_picture(svg) if svg is not None else None
    opened = DataFolder.open(folder, verify=verify)
    if verify:
        console.notice(f"{folder}: all {len(opened.info.files)} files are as they were written")
    if show is not None:
        for index in chain.from_iterable(_numbers(show, len(opened.train))):
            for field, content in _fields(opened, index):
                console.print_row(str(index), field, content)
    else:
        for title, columns, rows in _tables(opened):
            console.print_table(columns, rows, title=title)
            console.print_row()
        for title, columns, rows in _tables_of_lengths(opened):
            console.print_table(columns, rows, title=title)
    if batch_tokens is not None:
        console.print_row()
        title, columns, rows = _table_of_updates(opened, batch_tokens)
        console.print_table(columns, rows, title=title)
    if examples and show is None:
        _show_examples(opened, min(examples, len(opened.train)))
    if rejects:
        console.print_row()
        from nmt.data.manifest import REJECTS_TEXT_NAME

        console.print_text((folder / REJECTS_TEXT_NAME).read_text("utf-8"))
    if picture is not None:
        write_text(picture, _draw_lengths(opened))
        console.notice(f"{picture} shows the lengths of train")


_Table = tuple[str, Sequence[str], list[list[str]]]
"""A title, the names of the columns, and the rows."""


def _tables(folder: DataFolder) -> Iterator[_Table]:
    """Yield what `nmt data` shows of a folder."""
    info = folder.info
    columns = ["split", "pairs", "side", "tokens", "mean", "median", "longest"]
    rows = [
        [
            *(split.name, f"{split.pairs:,}", lang),
            *(f"{side.tokens:,}", f"{side.mean:.1f}", str(side.median), str(side.longest)),
        ]
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
            *(corpus.prefix, named[flaw.side], flaw.kind),
            *(f"{flaw.lines:,}", f"{flaw.repaired:,}", flaw.example),
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


def _tables_of_lengths(folder: DataFolder) -> Iterator[_Table]:
    for lang, pairs_of in zip(folder.info.sides, folder.train.length_counts(), strict=True):
        # Bins are whole tokens wide: if the longest has 100, 15 bins of 7 reach to 104.
        longest = len(pairs_of) - 1
        width = -(-(longest + 1) // _MOST_BINS)
        counts = [0] * (longest // width + 1)
        for length, count in enumerate(pairs_of.tolist()):
            counts[length // width] += count
        bars = ["#" * -(-count * _BAR_WIDTH // max(counts)) for count in counts]
        rows = [
            [f"{place * width}-{(place + 1) * width - 1}", f"{count:,}", bar]
            for place, (count, bar) in enumerate(zip(counts, bars, strict=True))
        ]
        yield f"Lengths, train, {lang}", [f"{lang} tokens", "pairs", ""], rows


def _table_of_updates(folder: DataFolder, batch_tokens: int) -> _Table:
    """Return how many updates of this size there are, planned for the first pool of pairs."""
    from nmt.data.epochs import Epochs, plan_pool

    train = folder.train
    epochs = Epochs(train.shares, seed=1)
    plan = plan_pool(train, epochs, batch_tokens=batch_tokens, epoch=0, pool=0)
    pairs, updates = sum(map(len, plan)) / len(plan), len(plan) * epochs.pools
    row = [f"{batch_tokens:,}", f"{pairs:,.0f}", f"{updates:,}"]
    return "Updates", ["tokens", "pairs an update", "updates an epoch"], [row]


def _draw_lengths(folder: DataFolder) -> str:
    from nmt.plot import Panel, draw_curves

    series = [
        (lang, [(float(length), float(pairs)) for length, pairs in enumerate(counts)])
        for lang, counts in zip(folder.info.sides, folder.train.length_counts(), strict=True)
    ]
    panel = Panel("Lengths of train", series, "pairs", legend_values=False)
    return draw_curves([panel], "Lengths", x_label="tokens")


def _numbers(text: str, pairs: int) -> list[range]:
    """Return the numbers in a list such as 7,9-12; UsageError if there are no such pairs."""
    ranges = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None:
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


def _show_examples(folder: DataFolder, count: int) -> None:
    console.print_row()
    corpora = folder.info.train.corpora
    for index in range(count):
        src, tgt = corpora[folder.train.origin(index)[0]].langs
        for lang, ids, vocabulary in (
            (src, folder.train.src(index), folder.src_vocabulary),
            (tgt, folder.train.tgt(index), folder.tgt_vocabulary),
        ):
            numbers = ids.tolist()
            console.print_row(str(index), lang, vocabulary.decode([numbers])[0])
            console.print_row(str(index), lang, " ".join(vocabulary.tokens(numbers)))
