"""BLEU, chrF, chrF++ and TER, each with the signature that makes the figure comparable.

The figures are sacreBLEU's, and this is the only module that imports it. Text goes in as it reads,
detokenised and in its own case: the metric's own tokenizer is part of its definition, and the
signature records it (Post 2018, "A Call for Clarity in Reporting BLEU Scores").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as SacreScore
from sacrebleu.metrics.bleu import BLEUScore
from sacrebleu.metrics.ter import TERScore

from nmt.errors import DataError, UsageError, did_you_mean

# sacreBLEU's tokenizers that need neither a download nor another package.
TOKENIZERS = ("13a", "intl", "zh", "char", "none")


@dataclass(frozen=True)
class Score:
    """One figure and how it came about."""

    name: str
    """As sacreBLEU prints it: `BLEU`, `chrF2`, `chrF2++`, `TER`."""

    score: float
    """In percent, unrounded. Higher is better, but for TER lower is, and it may exceed 100."""

    signature: str
    """sacreBLEU's: every choice that moves the figure, and its version."""

    detail: Mapping[str, object] = field(default_factory=dict)
    """What the figure is made of; its keys depend on the metric."""


@dataclass(frozen=True)
class _Variant:
    """The choices that are the user's; all others are sacreBLEU's defaults."""

    tokenize: str
    lowercase: bool


# `force` only stops sacreBLEU from logging about tokenised text; see `tokenised_lines`.
_METRICS: dict[str, Callable[[_Variant], Metric]] = {
    "bleu": lambda v: BLEU(tokenize=v.tokenize, lowercase=v.lowercase, force=True),
    "chrf": lambda v: CHRF(lowercase=v.lowercase),
    "chrf++": lambda v: CHRF(lowercase=v.lowercase, word_order=2),
    "ter": lambda _: TER(),
}
METRICS = tuple(_METRICS)


def score(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> dict[str, Score]:
    """Score a corpus, and return metric name -> figure in the order of `METRICS`.

    hypotheses: N lines, detokenised.
    references: R lists of N lines each; R > 1 where a line has several translations.
    metrics: names out of `METRICS`.
    tokenize: BLEU's tokenizer, out of `TOKENIZERS`.
    lowercase: BLEU and chrF ignore case; TER, as Tercom defined it, always does.

    Raises DataError where there is nothing to score or the numbers of lines differ, and UsageError
    for an unknown metric or tokenizer.
    """
    check_metrics(metrics)
    check_tokenizer(tokenize)
    if not references:
        raise DataError("nothing to score against: expected at least one reference")
    named = [(f"reference {r}", len(lines)) for r, lines in enumerate(references, start=1)]
    check_line_counts([*named, ("the hypothesis", len(hypotheses))])
    variant = _Variant(tokenize, lowercase)
    return {
        name: _score(make(variant), hypotheses, references)
        for name, make in _METRICS.items()
        if name in metrics
    }


def _score(metric: Metric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    result: SacreScore = metric.corpus_score(hypotheses, references)
    return Score(result.name, result.score, str(metric.get_signature()), _detail(result))


def _detail(result: SacreScore) -> dict[str, object]:
    match result:
        case BLEUScore():
            return {
                "precisions": list(result.precisions),
                "brevity_penalty": result.bp,
                "hypothesis_length": result.sys_len,
                "reference_length": result.ref_len,
            }
        case TERScore():
            return {"edits": result.num_edits, "reference_length": result.ref_length}
        case _:
            return {}


def check_metrics(names: Sequence[str]) -> None:
    """Refuse a metric that does not exist, with the nearest one that does."""
    for name in names:
        if name not in _METRICS:
            raise UsageError(f"unknown metric {name!r}{did_you_mean(name, METRICS)}")


def check_tokenizer(name: str) -> None:
    """Refuse a tokenizer that does not exist, with the nearest one that does."""
    if name not in TOKENIZERS:
        raise UsageError(f"unknown tokenizer {name!r}{did_you_mean(name, TOKENIZERS)}")


def check_line_counts(counted: Sequence[tuple[str, int]]) -> None:
    """Refuse texts that cannot be compared line by line; `counted` is (name, lines) of each."""
    for (name, count), (other, other_count) in pairwise(counted):
        if count != other_count:
            raise DataError(
                f"the numbers of lines differ: {name} has {count:,}, {other} has {other_count:,}; "
                "line N of one is compared with line N of the other"
            )
    for name, count in counted:
        if count == 0:
            raise DataError(f"{name} has no lines; there is nothing to score")


def tokenised_lines(hypotheses: Sequence[str]) -> int:
    """Count the lines with a space before the final full stop, which tell of a tokenizer."""
    return sum(line.endswith(" .") for line in hypotheses)
