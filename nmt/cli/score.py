"""`nmt score`: BLEU, chrF and TER of a translation, with their signatures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet
from nmt.errors import UsageError

if TYPE_CHECKING:
    from nmt.scoring.significance import Resampling

EXAMPLES = (
    "nmt score test.de output.de",
    "nmt score test.de new.de --baseline old.de",
    "nmt score newstest2014-deen-ref.de.sgm output.de --card",
)

_DEFAULT_METRICS = ("bleu", "chrf", "ter")
_TEXT, _FIGURES, _CHANCE, _OUTPUT = "Text", "Figures", "Chance", "Output"


def score(
    reference: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCE",
            help="The human translation, one sentence a line. It may be compressed (.gz, .xz, "
            ".bz2), WMT's SGML (.sgm), or a column of a .tsv file, for example test.tsv:2.",
        ),
    ],
    hypothesis: Annotated[
        Path | None,
        typer.Argument(
            metavar="HYPOTHESIS",
            help="The machine translation, in one of the same forms. Default: stdin.",
        ),
    ] = None,
    more_references: Annotated[
        list[Path] | None,
        typer.Option(
            "--reference",
            metavar="FILE",
            help="Another human translation. You can repeat it.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Another machine translation. Tests tell you whether HYPOTHESIS differs from it "
            "by more than chance. You can repeat it.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The source text. You get a warning if lines of HYPOTHESIS just repeat it.",
            rich_help_panel=_TEXT,
        ),
    ] = None,
    encoding: Annotated[
        str,
        typer.Option(
            "--encoding",
            help="Character encoding of the files. Stdin is UTF-8.",
            rich_help_panel=_TEXT,
        ),
    ] = "utf-8",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="bleu|chrf|chrf++|ter",
            help="A metric. You can repeat it.",
            show_default=", ".join(_DEFAULT_METRICS),
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            "--tokenize",
            metavar="13a|intl|zh|char|none",
            help="BLEU's tokenizer. Take zh for Chinese and char for Japanese.",
            show_default="13a",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    lowercase: Annotated[
        bool,
        typer.Option(
            "--lowercase",
            help="Ignore case in BLEU and chrF. TER always does.",
            rich_help_panel=_FIGURES,
        ),
    ] = False,
    card: Annotated[
        bool,
        typer.Option(
            "--card",
            help="Print every variant of BLEU instead, and which published scores each compares "
            "with.",
            rich_help_panel=_FIGURES,
        ),
    ] = False,
    tgt: Annotated[
        str | None,
        typer.Option(
            metavar="LANG",
            help="With --card: the target language, for its tokenisation rules.",
            show_default="the ending of REFERENCE",
            rich_help_panel=_FIGURES,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=50,
            max=99.9,
            help="Add a confidence interval to each score, by bootstrap resampling. 95 is usual.",
            show_default="no interval; 95 for differences",
            rich_help_panel=_CHANCE,
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of bootstrap samples.",
            show_default="1000",
            rich_help_panel=_CHANCE,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of trials of approximate randomisation, with --baseline.",
            show_default="10000",
            rich_help_panel=_CHANCE,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Seed of both.",
            show_default="12345",
            rich_help_panel=_CHANCE,
        ),
    ] = None,
    sentences: Annotated[
        bool,
        typer.Option(
            "--sentences",
            help="Print the scores of each line instead. With --json, print them as well.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object: for each metric its score, signature and details.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compare a translation with its reference, line by line: BLEU, chrF, chrF++, TER.

    The scores are sacreBLEU's, in percent. Give it detokenised text, as people read it. Higher is
    better, except for TER.

    You can compare scores only if their signatures are equal, so report both. You get a warning
    about problems that make scores incomparable, for example subword marks.
    """
    from nmt.cli import score_report as report
    from nmt.data.corpus import Encoding
    from nmt.scoring import metrics
    from nmt.scoring.figures import figure
    from nmt.scoring.inputs import check_plain, check_segments, read_stdin, read_text
    from nmt.scoring.pitfalls import pitfalls

    names = metric or list(_DEFAULT_METRICS)
    metrics.check_metrics(names)
    if tokenize is not None:
        metrics.check_tokenizer(tokenize)
        if "bleu" not in names:
            raise UsageError("--tokenize is BLEU's, which --metric leaves out")
    if card and (metric or tokenize or lowercase):
        raise UsageError("--card has its own metrics: leave out --metric, --tokenize, --lowercase")
    if tgt is not None and not card:
        raise UsageError("--tgt is the language of --card, which is not asked for")
    in_total = as_json or not sentences
    if confidence is not None and not in_total:
        raise UsageError("--sentences prints no intervals; add --json, or leave out --confidence")
    if Path("-") in (reference, source, *(more_references or ()), *(baseline or ())):
        raise UsageError("- is stdin, which only HYPOTHESIS can be here")
    lang = _language(tgt, reference) if card else ""
    draws = {"samples": samples, "trials": trials, "seed": seed}
    resampling = _resampling(draws, confidence, compares=bool(baseline) and in_total)
    level = confidence or 95.0

    known = Encoding.find(encoding)
    references = [read_text(path, known) for path in (reference, *(more_references or ()))]
    if hypothesis is None or hypothesis == Path("-"):
        output = read_stdin()
    else:
        output = read_text(hypothesis, known)
    outputs = [output, *(read_text(path, known) for path in baseline or ())]
    check_plain(outputs)
    original = read_text(source, known) if source is not None else None
    texts = [*references, *outputs, *([original] if original is not None else [])]
    metrics.check_line_counts([(text.name, len(text.lines)) for text in texts])
    check_segments(texts)
    for warning in pitfalls(outputs, references, original, tokenised=tokenize == "none"):
        console.warning(warning)

    known_lines = [text.lines for text in references]
    if card:
        # Here, since only the card needs Moses.
        from nmt.data.moses import has_moses_rules
        from nmt.scoring.bleu_card import bleu_card

        measures = bleu_card(known_lines, lang)
        if not has_moses_rules(lang):
            console.warning(f"--tgt {lang}: Moses has no rules for it and takes those of English")
    else:
        measures = metrics.measures(
            names, known_lines, tokenize=tokenize or "13a", lowercase=lowercase
        )
    figures = {
        key: figure(
            measure,
            [text.lines for text in outputs],
            resampling,
            interval=confidence is not None,
            by_line=sentences,
            in_total=in_total,
        )
        for key, measure in measures.items()
    }
    baselines = [text.name for text in outputs[1:]]
    if as_json:
        report.print_json(figures, baselines, level)
    elif sentences:
        report.print_lines(figures, baselines)
    else:
        report.print_figures(figures, level)
        if baselines:
            print()
            report.print_comparisons(figures, baselines, level)


def _resampling(
    draws: Mapping[str, int | None], confidence: float | None, *, compares: bool
) -> Resampling | None:
    """Return how to draw, if anything is drawn."""
    given = {name: value for name, value in draws.items() if value is not None}
    if given and not compares and confidence is None:
        raise UsageError(f"--{next(iter(given))} is for --confidence and --baseline")
    if "trials" in given and not compares:
        raise UsageError("--trials is for --baseline")
    if not compares and confidence is None:
        return None
    from nmt.scoring.significance import Resampling

    return Resampling(**given, level=confidence or 95.0)


def _language(tgt: str | None, reference: Path) -> str:
    from nmt.data.moses import has_moses_rules
    from nmt.scoring.inputs import language_of

    if tgt is not None:
        return tgt
    found = language_of(reference)
    if not has_moses_rules(found):
        raise UsageError(
            f"--card: {reference} does not end in a language that Moses knows, such as .de; "
            "pass --tgt"
        )
    return found
