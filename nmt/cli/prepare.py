"""`nmt prepare`: parallel text to a data folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet
from nmt.data.manifest import Settings
from nmt.errors import UsageError
from nmt.prepare.options import RATIO_FREE_CHARACTERS, RULES

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder

EXAMPLE = (
    "nmt prepare data/multi30k --src en --tgt de --train corpora/train --valid corpora/val "
    "--test corpora/test_2016_flickr --vocab-size 8000"
)

_TEXT, _VOCABULARY, _CLEANING, _OTHER = "Text", "Vocabulary", "Cleaning of train", "Other"
_RULES = "; ".join(f"[bold]{rule}[/bold]: {meaning}" for rule, meaning in RULES.items())


def prepare(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Data folder to make.")],
    src: Annotated[
        str,
        typer.Option(metavar="LANG", help="Source language: PREFIX.LANG.", rich_help_panel=_TEXT),
    ],
    tgt: Annotated[
        str,
        typer.Option(metavar="LANG", help="Target language: PREFIX.LANG.", rich_help_panel=_TEXT),
    ],
    train: Annotated[
        list[str],
        typer.Option(
            metavar="PREFIX",
            help="Training text PREFIX.SRC and PREFIX.TGT, each plain, .gz, .xz, .bz2 or .zst. "
            "Several are read one after the other.",
            rich_help_panel=_TEXT,
        ),
    ],
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Text to validate on. Every line is kept.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    valid_lines: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Without --valid: take so many pairs, drawn by --seed, out of the training text.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX", help="Test sets. Every line is kept.", rich_help_panel=_TEXT
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=NUMBER",
            help="How often an epoch visits each pair of a training text: 3 up-samples it, 0.5 "
            "takes another half of it in each epoch.",
            show_default="1",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=TAG",
            help="Put a word such as <2de> or <BT> before each source line of a text. It is one "
            "subword, and `nmt translate` takes it as part of the line.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    encoding: Annotated[
        str,
        typer.Option(
            help="Character encoding of all text, such as windows-1252.", rich_help_panel=_TEXT
        ),
    ] = Settings.encoding,
    vocab_size: Annotated[
        int,
        typer.Option(
            help="Subwords of the vocabulary, 4 special ones and 256 bytes among them.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.vocab_size,
    vocab: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MODEL",
            help="Use this SentencePiece model and learn none; twice for a source and a target "
            "one.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = None,
    separate_vocab: Annotated[
        bool,
        typer.Option(
            "--separate-vocab",
            help="One vocabulary for each language instead of one for both.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.separate_vocab,
    sample_size: Annotated[
        int,
        typer.Option(
            help="Pairs to learn the vocabulary from, drawn from all by their --weight; what the "
            "rules drop of them is left out.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.sample_size,
    normalization: Annotated[
        str,
        typer.Option(
            help="identity, nfkc, nfkc_cf, nmt_nfkc or nmt_nfkc_cf: SentencePiece's rule. All but "
            "identity change characters for good.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.normalization,
    moses_normalize: Annotated[
        bool,
        typer.Option(
            "--moses-normalize",
            help="Moses punctuation normalisation of all text first. `nmt translate` will do the "
            "same to its input.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.moses_normalize,
    moses_tokenize: Annotated[
        bool,
        typer.Option(
            "--moses-tokenize",
            help="Moses tokenisation of all text. `nmt translate` will do the same to its input, "
            "and undo it in its output.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.moses_tokenize,
    character_coverage: Annotated[
        float,
        typer.Option(
            help="Share of all characters that get a subword of their own; the others are written "
            "in bytes. 0.9995 for Chinese or Japanese.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.character_coverage,
    min_length: Annotated[
        int,
        typer.Option(help="Drop pairs with fewer subwords on a side.", rich_help_panel=_CLEANING),
    ] = Settings.min_length,
    max_length: Annotated[
        int,
        typer.Option(help="Drop pairs with more subwords on a side.", rich_help_panel=_CLEANING),
    ] = Settings.max_length,
    max_ratio: Annotated[
        float,
        typer.Option(
            help="Drop pairs where a side has so many times the characters of the other, and more "
            f"than {RATIO_FREE_CHARACTERS}.",
            rich_help_panel=_CLEANING,
        ),
    ] = Settings.max_ratio,
    max_symbols: Annotated[
        float,
        typer.Option(
            help="Drop pairs where a greater share of a side's characters, spaces not counted, is "
            "no letters.",
            rich_help_panel=_CLEANING,
        ),
    ] = Settings.max_symbols,
    duplicates_by: Annotated[
        str,
        typer.Option(
            metavar="pair|source",
            help="What is compared to find duplicates. It takes 10.7 bytes of memory a line; "
            "`--keep duplicate` takes none.",
            rich_help_panel=_CLEANING,
        ),
    ] = Settings.duplicates_by,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help=f"Switch a rule off, and keep what it would drop. {_RULES}.",
            rich_help_panel=_CLEANING,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            help="Draws the pairs that the vocabulary is learnt from, and those of --valid-lines.",
            rich_help_panel=_OTHER,
        ),
    ] = Settings.seed,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that clean and encode. The result does not depend on them.",
            show_default="all cores",
            rich_help_panel=_OTHER,
        ),
    ] = None,
    dry_run: Annotated[
        int | None,
        typer.Option(
            "--dry-run",
            min=1,
            metavar="PAIRS",
            help="Write nothing, but show what the rules would take of so many pairs, with "
            "examples.",
            rich_help_panel=_CLEANING,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Clean parallel text, learn a vocabulary, and write shards that training reads.

    OUT appears when it is complete. A run that was stopped or killed goes on when the same command
    is run again; where OUT is complete it is left as it is. What the rules dropped stands in
    OUT/rejects.txt, with examples.
    """
    from nmt.cpu import cores
    from nmt.prepare.options import PrepareOptions
    from nmt.prepare.prepare import dry_run as try_rules
    from nmt.prepare.prepare import prepare as run
    from nmt.prepare.rejects import report_text

    settings = Settings(
        src_lang=src,
        tgt_lang=tgt,
        encoding=encoding,
        vocab_size=vocab_size,
        separate_vocab=separate_vocab,
        normalization=normalization,
        moses_normalize=moses_normalize,
        moses_tokenize=moses_tokenize,
        character_coverage=character_coverage,
        sample_size=sample_size,
        min_length=min_length,
        max_length=max_length,
        max_ratio=max_ratio,
        max_symbols=max_symbols,
        duplicates_by=duplicates_by,
        keep=tuple(keep or ()),
        seed=seed,
        valid_lines=valid_lines or 0,
    )
    options = PrepareOptions(
        out=out,
        train=tuple(train),
        valid=valid,
        test=tuple(test or ()),
        weights=_weights(weight),
        tags=dict(_by_prefix("tag", tag)),
        vocab=tuple(vocab or ()),
        settings=settings,
        workers=workers if workers is not None else cores(),
    )
    if dry_run is not None:
        print(report_text(try_rules(options, pairs=dry_run)), end="")
    else:
        _tell(run(options), out)


def _by_prefix(option: str, given: list[str] | None) -> list[tuple[str, str]]:
    """Split each PREFIX=VALUE at the last equals sign, which a prefix may hold too."""
    found: list[tuple[str, str]] = []
    for text in given or ():
        prefix, equals, value = text.rpartition("=")
        if not equals:
            raise UsageError(f"--{option} {text}: must be PREFIX=VALUE")
        if any(prefix == known for known, _ in found):
            raise UsageError(f"--{option} {text}: {prefix} has one already; give only one")
        found.append((prefix, value))
    return found


def _weights(given: list[str] | None) -> dict[str, float]:
    weights = {}
    for prefix, value in _by_prefix("weight", given):
        try:
            weights[prefix] = float(value)
        except ValueError:
            raise UsageError(f"--weight {prefix}={value}: must be a number above 0") from None
    return weights


def _tell(folder: DataFolder, out: Path) -> None:
    info = folder.info
    for corpus in info.train.corpora:
        rejected = ", ".join(f"{rule} {count:,}" for rule, count in corpus.rejected.items())
        console.notice(
            f"{corpus.prefix}: {corpus.kept:,} of {corpus.lines:,} pairs kept; rejected: "
            f"{rejected or 'none'}"
        )
    for split in info.splits:
        console.notice(
            f"{split.name}: {split.pairs:,} pairs, {split.src.tokens:,} {folder.src_lang} and "
            f"{split.tgt.tokens:,} {folder.tgt_lang} tokens"
        )
    sizes = " and ".join(f"{size:,}" for size in info.vocabulary.sizes)
    console.notice(f"{out} is ready, with a vocabulary of {sizes}")
