"""`nmt score`: BLEU, chrF or TER of a translation, with their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt import console
from nmt.cli.options import Quiet, argument
from nmt.errors import UsageError
from nmt.scoring.options import DEFAULT_METRICS, ScoringOptions

if TYPE_CHECKING:
    from nmt.scoring.inputs import Text
    from nmt.scoring.metrics import Metric

EXAMPLES = (
    "nmt score test.de output.de",
    "nmt score test.de new.de --baseline old.de",
    "nmt score newstest2014-deen-ref.de.sgm output.de --card",
    "nmt score newstest2021.en-de.xml:A output.de",
)

_STDIN = Path("-")


def score(
    reference: Annotated[
        Path,
        argument(
            "REFERENCE",
            "The human translation, one sentence a line. It may be compressed (.gz, .xz, "
            ".bz2), WMT's SGML (.sgm), a column of a table, for example test.tsv:2 or "
            "test.jsonl:target, a translator in WMT's XML, for example test.xml:A, or a document "
            "such as .po, .xlf, .srt or .html.",
        ),
    ],
    hypothesis: Annotated[
        Path,
        argument(
            "HYPOTHESIS", "The machine translation, in one of the same forms.", show_default="stdin"
        ),
    ] = _STDIN,
    *,
    options: ScoringOptions,
    quiet: Quiet = False,
) -> None:
    """Compare a translation with its reference, line by line: BLEU, chrF, chrF++, TER.

    The scores are sacreBLEU's, in percent. Give detokenised text, as people read it. Higher is
    better, except for TER.

    The ending of REFERENCE names the language, such as .de. It decides how BLEU and TER split
    words: Chinese, Japanese, Korean, Thai and others have rules of their own.

    You can compare scores only if their signatures are equal, so report both. You get a warning
    about problems that make scores incomparable, for example subword marks.
    """
    from nmt.scoring import results
    from nmt.scoring.text_warnings import text_warnings

    if _STDIN in (reference, options.source, *options.references, *options.baselines):
        raise UsageError("- is stdin, which only HYPOTHESIS can be here")
    resampling = options.resampling
    references, outputs, source = _read(reference, hypothesis, options)
    metrics, spaced = _metrics(options, reference, references)
    tokenised = options.tokenize == "none"
    for warning in text_warnings(outputs, references, source, tokenised=tokenised, spaced=spaced):
        console.warning(warning)
    lines, with_interval = [text.lines for text in outputs], options.confidence is not None
    evaluated = {
        name: results.evaluate(name, metric, lines, resampling, with_interval=with_interval)
        for name, metric in metrics.items()
    }
    baselines = [text.name for text in outputs[1:]]
    if options.json:
        console.print_json(
            {name: results.as_object(result, baselines) for name, result in evaluated.items()}
        )
    else:
        results.print_tables(evaluated, baselines)


def _read(
    reference: Path, hypothesis: Path, options: ScoringOptions
) -> tuple[list[Text], list[Text], Text | None]:
    """Read and check all texts: the references, the output with its baselines, and the source."""
    references = [("reference", path) for path in (reference, *options.references)]
    outputs = [("hypothesis", path) for path in (hypothesis, *options.baselines)]
    source = [("source", options.source)] if options.source is not None else []
    texts = read_texts([*references, *outputs, *source], options.encoding, options.quoting)
    first, last = len(references), len(references) + len(outputs)
    return texts[:first], texts[first:last], next(iter(texts[last:]), None)


def read_texts(
    paths: Sequence[tuple[str, Path]], encoding: str, quoting: Sequence[str]
) -> list[Text]:
    """Read texts that go together line by line, each with its use, and check that they do."""
    from nmt.data.corpus import Encoding
    from nmt.scoring.inputs import check_plain, check_segments, read_text
    from nmt.scoring.metrics import check_line_counts

    texts = [read_text(path, Encoding.find(encoding), use, quoting) for use, path in paths]
    check_plain(texts)
    check_line_counts([(text.name, len(text.lines)) for text in texts])
    check_segments(texts)
    return texts


def _metrics(
    options: ScoringOptions, path: Path, references: Sequence[Text]
) -> tuple[dict[str, Metric], list[str]]:
    """Return the metrics, and the names of those that split words at spaces."""
    from nmt.data.languages import scripts_of
    from nmt.scoring.inputs import language_of
    from nmt.scoring.metrics import make_metrics
    from nmt.scoring.tokenizers import has_han, splits_at_spaces

    lang = options.lang or references[0].lang or language_of(path)
    texts = [text.lines for text in references]
    if options.lang is not None and not scripts_of(options.lang):
        console.warning(f"--lang {lang}: not the code of a language, such as de or zh")
    if options.card:
        return _card(options, path, texts, lang), []
    names = options.metrics or DEFAULT_METRICS
    tokenize = options.tokenize or choose_tokenizer(lang, says="bleu" in names)
    spaced = {"bleu": splits_at_spaces(tokenize), "ter": not has_han(lang)}
    made = make_metrics(
        names, texts, tokenize=tokenize, lowercase=options.lowercase, han_words=has_han(lang)
    )
    return made, [name.upper() for name in names if spaced.get(name)]


def choose_tokenizer(lang: str, *, says: bool) -> str:
    """Return BLEU's tokenizer for a language, and say so if it is not the usual one."""
    from nmt.scoring.tokenizers import DEFAULT, missing_packages, tokenizer_for

    tokenizer, best = tokenizer_for(lang), tokenizer_for(lang, is_installed=lambda _: True)
    if says and best != DEFAULT:
        better = "" if best == tokenizer else f"; {best} is better, but {missing_packages(best)}"
        console.notice(f"the language is {lang}, so BLEU's tokenizer is {tokenizer}{better}")
    return tokenizer


def _card(
    options: ScoringOptions, path: Path, references: Sequence[Sequence[str]], lang: str
) -> dict[str, Metric]:
    from nmt.data.moses import has_moses_rules
    from nmt.scoring.bleu_card import bleu_card

    card = bleu_card(references, lang)
    if not has_moses_rules(lang):
        if options.lang is None:
            raise UsageError(
                f"--card: {path} does not end in a language that Moses knows, such as .de; "
                "pass --lang"
            )
        console.warning(f"--lang {lang}: Moses has no rules for it and takes those of English")
    return card
