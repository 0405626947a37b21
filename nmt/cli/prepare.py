"""`nmt prepare`: parallel text to a data folder."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from nmt import console
from nmt.cli.options import Quiet, Verbose, argument
from nmt.config.fields import value
from nmt.console import counted
from nmt.errors import UsageError
from nmt.prepare.cleaning_options import FLAWS, CleaningOptions
from nmt.prepare.options import PrepareOptions

if TYPE_CHECKING:
    from nmt.data.folder import DataFolder

EXAMPLES = (
    "nmt prepare data --src en --tgt de --train corpora/train --valid corpora/val",
    "nmt prepare data --src en --tgt de --train news --valid-lines 1000",
    "nmt prepare data --pair en-de=news --pair de-en=news --valid-lines 1000",
    "nmt prepare data --src en --tgt de --train talks --valid held --documents",
    "nmt prepare data --src en --tgt de --train news --valid held --terms auto",
)


def prepare(
    out: Annotated[str, argument("OUT", "Data folder to make: a path or a URL.")],
    options: PrepareOptions,
    cleaning: CleaningOptions,
    *,
    dry_run: int | None = value(
        None,
        "Write nothing. Try the cleaning rules on this many pairs, and show what they would drop.",
        metavar="PAIRS",
        minimum=1,
    ),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Clean parallel text, learn a vocabulary, and write shards that training reads.

    OUT appears when it is complete. If the command is stopped or killed, run it again and it goes
    on. If OUT is complete already, nothing happens, and other options or text are refused.
    OUT/rejects.txt lists the dropped pairs by rule, with examples.
    """
    from nmt.data.vocabulary import Vocabulary
    from nmt.interchange.importers.bpe_codes import read_codes
    from nmt.models.model_file import read_vocabularies
    from nmt.prepare.prepare import dry_run as try_rules
    from nmt.prepare.prepare import prepare as run
    from nmt.prepare.reject_report import report_text
    from nmt.prepare.remote_folder import made_for

    vocabularies, languages = list[Vocabulary](), None
    for path in options.vocab:
        codes = read_codes(path)
        of_file, languages = ((codes,), None) if codes else read_vocabularies(path)
        if languages is not None and len(options.vocab) > 1:
            raise UsageError(f"--vocab {path} is a model of several languages; give it alone")
        vocabularies += of_file
    if len(vocabularies) > 2:
        raise UsageError("--vocab gives more than two vocabularies; give one model only")
    if dry_run is not None:
        report = try_rules(options, cleaning, vocabularies, languages, pairs=dry_run)
        console.print_text(report_text(report))
        return
    with made_for(out) as path:
        folder = run(path, options, cleaning, vocabularies, languages)
    _report(folder, out, options)


def _report(folder: DataFolder, out: str, options: PrepareOptions) -> None:
    info = folder.info
    for corpus in info.train.corpora:
        by_rule = dict(corpus.rejected)
        drawn = by_rule.pop("valid", 0)  # which nothing is wrong with
        rejected = ", ".join(f"{rule} {count:,}" for rule, count in by_rule.items())
        console.notice(
            f"{corpus.prefix}: {corpus.kept:,} of {corpus.lines:,} pairs kept"
            + f", {drawn:,} drawn for valid or near copies of those" * bool(drawn)
            + f"; rejected: {rejected or 'none'}"
        )
        for flaw in corpus.flaws:
            side = dict(zip(("src", "tgt"), corpus.langs, strict=True))[flaw.side]
            console.notice(
                f"{corpus.prefix}: {counted(flaw.lines, f'{side} line has', f'{side} lines have')} "
                f"{FLAWS[flaw.kind]}, "
                + (f"{flaw.repaired:,} repaired" if flaw.repaired else "none repaired: see --fix")
            )
    if info.train.windows:
        windows = enumerate(info.train.windows, start=1)
        told = [f"{count:,} of {counted(lines, 'line', 'lines')}" for lines, count in windows]
        console.notice(f"windows of train: {', '.join(told)}")
    src, tgt = info.sides
    for split in info.splits:
        console.notice(
            f"{split.title}: {split.pairs:,} pairs, {split.src.tokens:,} {src} and "
            f"{split.tgt.tokens:,} {tgt} tokens"
        )
    for split in info.splits:
        for corpus in split.corpora:
            if (near := corpus.overlap) is not None:
                console.notice(
                    f"{split.title}, {'-'.join(corpus.langs)}: {near.same:,} of {corpus.kept:,} "
                    f"pairs have a side that stands in train, {near.near:,} more have a near copy "
                    f"there, and the median overlap with train is {near.median:.2f}"
                )
    if info.reads_annotations:
        train = info.train
        console.notice(f"train: {train.annotations:,} annotations in {train.annotated:,} pairs")
        if not train.annotated:
            console.warning(
                f"--terms {options.terms}: no pair of train has a term and its translation; are "
                "its columns swapped?"
            )
    sizes = " and ".join(f"{size:,}" for size in info.vocabulary.sizes)
    console.notice(f"{out} is ready, with a vocabulary of {sizes}")
    runs = [v for v in options.vocab if v.suffix == ".safetensors" or (v / "config.toml").exists()]
    tune = "".join(f"--out tuned --init-from {shlex.quote(str(run))}" for run in runs[:1])
    console.next_step("nmt train", out, tune or "--out run")
