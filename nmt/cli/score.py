"""`nmt score`: BLEU, chrF and TER of a translation, with their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt import console
from nmt.cli.options import Quiet
from nmt.errors import UsageError
from nmt.scoring.options import DEFAULT_METRICS, ScoringOptions

if TYPE_CHECKING:
    from nmt.scoring.inputs import Text
    from nmt.scoring.metrics import LineMetric, Metric

EXAMPLES = (
    "nmt score test.de output.de",
    "nmt score test.de new.de --baseline old.de",
    "nmt score test.de new.de --source test.en --comet-command C --comet-model M",
    "nmt score newstest2014-deen-ref.de.sgm output.de --card",
)

_STDIN = Path("-")


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
        Path,
        typer.Argument(
            metavar="HYPOTHESIS",
            help="The machine translation, in one of the same forms.",
            show_default="stdin",
        ),
    ] = _STDIN,
    *,
    options: ScoringOptions,
    quiet: Quiet = False,
) -> None:
    """Compare a translation with its reference, line by line: BLEU, chrF, chrF++, TER.

    The scores are sacreBLEU's, in percent. Give detokenised text, as people read it. Higher is
    better, except for TER.

    You can compare scores only if their signatures are equal, so report both. You get a warning
    about problems that make scores incomparable, for example subword marks.
    """
    from nmt.scoring import results
    from nmt.scoring.pitfalls import pitfalls

    if _STDIN in (reference, options.source, *options.references, *options.baselines):
        raise UsageError("- is stdin, which only HYPOTHESIS can be here")
    lang = _language(options.tgt, reference) if options.card else ""
    resampling = options.resampling
    references, outputs, source = _read(reference, hypothesis, options)
    for warning in pitfalls(outputs, references, source, tokenised=options.tokenize == "none"):
        console.warning(warning)
    metrics: dict[str, LineMetric] = {**_metrics(options, [one.lines for one in references], lang)}
    if options.comet_command is not None and options.comet_model is not None and source is not None:
        from nmt.scoring.comet import Comet

        console.notice(f"running {options.comet_command}")
        metrics["comet"] = Comet(
            options.comet_command,
            options.comet_model,
            source.lines,
            references[0].lines,
            [text.lines for text in outputs],
        )
    found = {
        name: results.evaluate(
            metric,
            [text.lines for text in outputs],
            resampling,
            with_interval=options.confidence is not None,
            by_line=options.sentences,
        )
        for name, metric in metrics.items()
    }
    baselines = [text.name for text in outputs[1:]]
    if options.json:
        results.print_json(found, baselines)
    elif options.sentences:
        results.print_lines(found, baselines)
    else:
        results.print_tables(found, baselines)


def _language(tgt: str | None, reference: Path) -> str:
    from nmt.data.moses import has_moses_rules
    from nmt.scoring.inputs import language_of

    lang = tgt or language_of(reference)
    if tgt is None and not has_moses_rules(lang):
        raise UsageError(
            f"--card: {reference} does not end in a language that Moses knows, such as .de; "
            "pass --tgt"
        )
    return lang


def _read(
    reference: Path, hypothesis: Path, options: ScoringOptions
) -> tuple[list[Text], list[Text], Text | None]:
    """Read and check all texts: the references, the output with its baselines, and the source."""
    from nmt.data.corpus import Encoding
    from nmt.scoring.inputs import check_plain, check_segments, read_text
    from nmt.scoring.metrics import check_line_counts

    encoding = Encoding.find(options.encoding)
    references = [read_text(path, encoding) for path in (reference, *options.references)]
    outputs = [read_text(path, encoding) for path in (hypothesis, *options.baselines)]
    check_plain(outputs)
    source = read_text(options.source, encoding) if options.source is not None else None
    texts = [*references, *outputs, *([source] if source is not None else [])]
    check_line_counts([(text.name, len(text.lines)) for text in texts])
    check_segments(texts)
    return references, outputs, source


def _metrics(
    options: ScoringOptions, references: Sequence[Sequence[str]], lang: str
) -> dict[str, Metric]:
    if not options.card:
        from nmt.scoring.metrics import make_metrics

        return make_metrics(
            options.metrics or DEFAULT_METRICS,
            references,
            tokenize=options.tokenize or "13a",
            lowercase=options.lowercase,
        )
    from nmt.data.moses import has_moses_rules
    from nmt.scoring.bleu_card import bleu_card

    card = bleu_card(references, lang)
    if not has_moses_rules(lang):
        console.warning(f"--tgt {lang}: Moses has no rules for it and takes those of English")
    return card
