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

EXAMPLES = (
    "nmt prepare data --src en --tgt de --train corpora/train --valid corpora/val",
    "nmt prepare data --src en --tgt de --train news --valid-lines 1000 --vocab-size 8000",
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
            help="Training text in PREFIX.SRC and PREFIX.TGT, plain or compressed (.gz, .xz, .bz2, "
            ".zst). You can repeat it.",
            rich_help_panel=_TEXT,
        ),
    ],
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Text to validate on. Cleaning leaves it as it is.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    valid_lines: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Without --valid: take N random pairs out of the training text.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX",
            help="A test set. Cleaning leaves it as it is. You can repeat it.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=NUMBER",
            help="How often an epoch visits each pair of this training text. For example, 3 "
            "repeats it three times, and 0.5 takes a different half in each epoch.",
            show_default="1",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX=TAG",
            help="Put a tag such as <2de> or <BT> before each source line of this text. To use it "
            "later, type it before the line that you translate.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    encoding: Annotated[
        str,
        typer.Option(
            help="Character encoding of all text, for example windows-1252.", rich_help_panel=_TEXT
        ),
    ] = Settings.encoding,
    vocab_size: Annotated[
        int,
        typer.Option(
            help="Size of the vocabulary. 4 special tokens and 256 bytes count too.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.vocab_size,
    vocab: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MODEL",
            help="Use this SentencePiece model instead of learning one. Give it twice for separate "
            "vocabularies: source, then target.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = None,
    separate_vocab: Annotated[
        bool,
        typer.Option(
            "--separate-vocab",
            help="Learn one vocabulary for each language instead of a joint one.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.separate_vocab,
    sample_size: Annotated[
        int,
        typer.Option(
            help="Learn the vocabulary from this many random pairs, drawn by --weight and cleaned.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.sample_size,
    normalization: Annotated[
        str,
        typer.Option(
            help="SentencePiece's rule: identity, nfkc, nfkc_cf, nmt_nfkc or nmt_nfkc_cf. All "
            "except identity change some characters, and decoding does not restore them.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.normalization,
    moses_normalize: Annotated[
        bool,
        typer.Option(
            "--moses-normalize",
            help="Apply Moses' punctuation normalisation to all text. `nmt translate` will do the "
            "same to its input.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.moses_normalize,
    moses_tokenize: Annotated[
        bool,
        typer.Option(
            "--moses-tokenize",
            help="Apply Moses' tokeniser to all text. `nmt translate` will do the same to its "
            "input, and detokenise its output.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.moses_tokenize,
    character_coverage: Annotated[
        float,
        typer.Option(
            help="Share of characters that become subwords. The others are written as bytes. Use "
            "0.9995 for Chinese or Japanese.",
            rich_help_panel=_VOCABULARY,
        ),
    ] = Settings.character_coverage,
    min_length: Annotated[
        int,
        typer.Option(help="Drop pairs if a side has fewer subwords.", rich_help_panel=_CLEANING),
    ] = Settings.min_length,
    max_length: Annotated[
        int,
        typer.Option(help="Drop pairs if a side has more subwords.", rich_help_panel=_CLEANING),
    ] = Settings.max_length,
    max_ratio: Annotated[
        float,
        typer.Option(
            help="Drop pairs if one side has more than X times the characters of the other, and "
            "more "
            f"than {RATIO_FREE_CHARACTERS}.",
            rich_help_panel=_CLEANING,
        ),
    ] = Settings.max_ratio,
    max_symbols: Annotated[
        float,
        typer.Option(
            help="Drop pairs if more than this share of a side's characters are not letters. "
            "Spaces do not count.",
            rich_help_panel=_CLEANING,
        ),
    ] = Settings.max_symbols,
    duplicates_by: Annotated[
        str,
        typer.Option(
            metavar="pair|source",
            help="Drop repeated pairs, or pairs with a repeated source. This takes 10.7 bytes of "
            "memory a line.",
            rich_help_panel=_CLEANING,
        ),
    ] = Settings.duplicates_by,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RULE",
            help=f"Switch a cleaning rule off. You can repeat it. The rules: {_RULES}.",
            rich_help_panel=_CLEANING,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of random pairs, for the vocabulary and --valid-lines.",
            rich_help_panel=_OTHER,
        ),
    ] = Settings.seed,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes. The result does not depend on it.",
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
            help="Write nothing. Try the cleaning rules on this many pairs, and show what they "
            "would drop.",
            rich_help_panel=_CLEANING,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Clean parallel text, learn a vocabulary, and write shards that training reads.

    OUT appears when it is complete. If the command is stopped or killed, run it again and it goes
    on. If OUT is complete already, nothing happens. OUT/rejects.txt lists the dropped pairs by
    rule, with examples.
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
