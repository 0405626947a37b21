"""`nmt data`: what is in a data folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet, check_picture
from nmt.errors import UsageError
from nmt.files import write_text

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder

EXAMPLES = (
    "nmt data data/multi30k",
    "nmt data data/multi30k --verify",
    "nmt data data/multi30k --show 0-9,28993",
)

_BAR_WIDTH = 40
_MOST_BINS = 16
_NUMBERS = re.compile("([0-9]+)(?:-([0-9]+))?")


def data(
    folder: Annotated[
        Path, typer.Argument(metavar="DATA", help="A folder that `nmt prepare` made.")
    ],
    examples: Annotated[
        int, typer.Option(min=0, help="Show this many training pairs, with their subwords.")
    ] = 3,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="N[,M]",
            help="Show only these training pairs, counted from 0: text, tokens, token ids, corpus, "
            "row, and side columns, such as that of `prepare --keep-column`. 7-9 means 7, 8 and 9.",
        ),
    ] = None,
    rejects: Annotated[
        bool,
        typer.Option("--rejects", help="Show which pairs cleaning dropped, with examples."),
    ] = False,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            min=1,
            max=1_000_000_000,
            help="Show how many updates of this size an epoch has.",
        ),
    ] = None,
    svg: Annotated[
        str | None,
        typer.Option(metavar="FILE.svg", help="Draw the lengths of the training sentences."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the checksum of every file.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Show what is in a data folder: pairs, tokens, lengths, vocabulary, and what was dropped."""
    from nmt.data.folder import DataFolder

    picture = check_picture(svg) if svg is not None else None
    opened = DataFolder.open(folder, verify=verify)
    if verify:
        console.notice(f"{folder}: all {len(opened.info.files)} files are as they were written")
    if show is not None:
        _show_pairs(opened, _numbers(show, len(opened.train)))
    else:
        _show_splits(opened)
        _show_corpora(opened)
        _show_windows(opened)
        _show_vocabulary(opened)
        _show_lengths(opened)
    if batch_tokens is not None:
        _show_batches(opened, batch_tokens)
    if examples and show is None:
        _show_examples(opened, min(examples, len(opened.train)))
    if rejects:
        print()
        from nmt.data.manifest import REJECTS_TEXT_NAME

        print((folder / REJECTS_TEXT_NAME).read_text("utf-8"), end="")
    if picture is not None:
        write_text(picture, _draw_lengths(opened))
        console.notice(f"{picture} shows the lengths of train")


def _show_splits(folder: DataFolder) -> None:
    rows = [
        [
            split.name,
            f"{split.pairs:,}",
            lang,
            f"{side.tokens:,}",
            f"{side.mean:.1f}",
            str(side.median),
            str(side.longest),
        ]
        for split in folder.info.splits
        for lang, side in zip(folder.info.sides, (split.src, split.tgt), strict=True)
    ]
    columns = ["split", "pairs", "side", "tokens", "mean", "median", "longest"]
    console.print_table(columns, rows, title="Splits, lengths in tokens")


def _show_corpora(folder: DataFolder) -> None:
    corpora = folder.info.train.corpora
    shares = folder.train.shares
    weights = [weight for _, weight in shares] if len(shares) > 1 else [1.0] * len(corpora)
    rules = list(dict.fromkeys(rule for corpus in corpora for rule in corpus.rejected))
    rows = [
        [corpus.prefix, f"{corpus.lines:,}", f"{corpus.kept:,}", f"{weight:.3g}", corpus.tag]
        + [f"{corpus.rejected.get(rule, 0):,}" for rule in rules]
        for corpus, weight in zip(corpora, weights, strict=True)
    ]
    print()
    console.print_table(
        ["train", "lines", "kept", "weight", "tag", *rules], rows, title="Training text"
    )
    if flaws := [(corpus.prefix, flaw) for corpus in corpora for flaw in corpus.flaws]:
        rows = [
            [prefix, flaw.side, flaw.kind, f"{flaw.lines:,}", f"{flaw.repaired:,}", flaw.example]
            for prefix, flaw in flaws
        ]
        print()
        columns = ["train", "side", "what", "lines", "repaired", "example"]
        console.print_table(columns, rows, title="Entities and broken encodings")
    if folder.info.reads_terms:
        _show_terms(folder)


def _show_terms(folder: DataFolder) -> None:
    train = folder.info.train
    row = [str(folder.info.settings["terms"]), f"{train.terms:,}", f"{train.annotated:,}"]
    print()
    console.print_table(["terms", "annotations", "pairs with some"], [row], title="Terms")


def _show_windows(folder: DataFolder) -> None:
    """Show how many lines of a document the training pairs have, if they are windows."""
    if counts := folder.info.train.windows:
        rows = [[str(lines), f"{count:,}"] for lines, count in enumerate(counts, start=1)]
        print()
        console.print_table(["lines", "pairs"], rows, title="Windows of train")


def _show_vocabulary(folder: DataFolder) -> None:
    from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

    origin = "given" if folder.info.vocabulary.given else "learnt"
    special = ", ".join(
        f"{name} {i}"
        for name, i in (("pad", PAD_ID), ("unk", UNK_ID), ("bos", BOS_ID), ("eos", EOS_ID))
    )
    vocabularies = (folder.src_vocabulary, folder.tgt_vocabulary)
    if folder.joint:
        sides = [("+".join(folder.info.sides), folder.src_vocabulary)]
    else:
        sides = list(zip(folder.info.sides, vocabularies, strict=True))
    rows = [[name, f"{len(vocabulary):,}", origin, special] for name, vocabulary in sides]
    print()
    console.print_table(["vocabulary", "size", "origin", "special ids"], rows, title="Vocabulary")


def _show_lengths(folder: DataFolder) -> None:
    print()
    for lang, pairs_of in zip(folder.info.sides, folder.train.length_counts(), strict=True):
        # Bins are whole tokens wide: if the longest has 100, 15 bins of 7 reach to 104.
        longest = len(pairs_of) - 1
        width = -(-(longest + 1) // _MOST_BINS)
        counts = [0] * (longest // width + 1)
        for length, count in enumerate(pairs_of.tolist()):
            counts[length // width] += count
        most = max(counts)
        rows = []
        for at, count in enumerate(counts):
            lengths_of_bin = f"{at * width}-{(at + 1) * width - 1}"
            bar = "#" * -(-count * _BAR_WIDTH // most)
            rows.append([lengths_of_bin, f"{count:,}", bar])
        console.print_table([f"{lang} tokens", "pairs", ""], rows, title=f"Lengths, train, {lang}")


def _show_batches(folder: DataFolder, batch_tokens: int) -> None:
    """Show updates of this size, planned for the first pool of pairs."""
    from nmt.data.epochs import Epochs, plan_pool

    train = folder.train
    epochs = Epochs(train.shares, seed=1)
    plan = plan_pool(train, epochs, batch_tokens=batch_tokens, epoch=0, pool=0)
    print()
    console.print_table(
        ["tokens", "pairs an update", "updates an epoch"],
        [
            [
                f"{batch_tokens:,}",
                f"{len(plan.order) / len(plan):,.0f}",
                f"{len(plan) * epochs.pools:,}",
            ]
        ],
        title="Updates",
    )


def _draw_lengths(folder: DataFolder) -> str:
    from nmt.plot import Panel, Series, draw_curves

    series = [
        Series(lang, [(float(length), float(pairs)) for length, pairs in enumerate(counts)])
        for lang, counts in zip(folder.info.sides, folder.train.length_counts(), strict=True)
    ]
    panel = Panel("Lengths of train", series, "pairs", legend_values=False)
    return draw_curves([panel], "Lengths", x_label="tokens")


def _numbers(text: str, pairs: int) -> list[range]:
    """Return the numbers in a list such as 7,9-12; UsageError if there are no such pairs."""
    ranges = []
    for part in text.split(","):
        found = _NUMBERS.fullmatch(part.strip())
        if found is None:
            raise UsageError(f"--show {text}: give numbers of pairs, such as 7 or 7,12 or 7-12")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < pairs:
            raise UsageError(
                f"--show {text}: there is no pair {part}; train has {pairs:,} pairs, counted from 0"
            )
        ranges.append(range(first, last + 1))
    return ranges


def _show_pairs(folder: DataFolder, ranges: list[range]) -> None:
    """Print a line for each field of each pair: its number, the field, and the value."""
    for index in chain.from_iterable(ranges):
        for field, value in _fields(folder, index):
            print(f"{index}\t{field}\t{value}")


def _fields(folder: DataFolder, index: int) -> Iterator[tuple[str, str]]:
    train, text = folder.train, folder.train_text
    number, row = train.origin(index)
    corpus = folder.info.train.corpora[number]
    yield "corpus", corpus.prefix
    yield "row", str(row)
    yield from train.side_values(index).items()
    src, tgt = folder.info.langs_of(corpus)
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
    print()
    corpora = folder.info.train.corpora
    for index in range(count):
        src, tgt = folder.info.langs_of(corpora[folder.train.origin(index)[0]])
        for lang, ids, vocabulary in (
            (src, folder.train.src(index), folder.src_vocabulary),
            (tgt, folder.train.tgt(index), folder.tgt_vocabulary),
        ):
            numbers = ids.tolist()
            print(f"{index}\t{lang}\t{vocabulary.decode([numbers])[0]}")
            print(f"{index}\t{lang}\t{' '.join(vocabulary.tokens(numbers))}")
