"""BLEU, chrF, chrF++ and TER, each with the signature that makes its score comparable.

The scores are sacreBLEU's, and only this module imports it. Give detokenised text in its own case:
the tokenizer belongs to the metric, and the signature records it (Post 2018, "A Call for Clarity in
Reporting BLEU Scores").

A corpus score is computed from counts that add up over lines. `Measure` returns the counts of each
line, so that resampling need not score the text again (`nmt.scoring.significance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as SacreScore
from sacrebleu.metrics.bleu import BLEUScore
from sacrebleu.metrics.ter import TERScore

from nmt.errors import DataError, UsageError, did_you_mean
from nmt.scoring.pitfalls import wmt14_hint

# sacreBLEU's tokenizers that need neither a download nor another package.
TOKENIZERS = ("13a", "intl", "zh", "char", "none")

References = Sequence[Sequence[str]]
"""R lists of N lines each."""

LineCounts = list[list[float]]
"""For each line what a metric counts there, such as n-grams and matches: N rows to be added up."""


@dataclass(frozen=True)
class Score:
    """One figure and how it came about."""

    name: str
    """As sacreBLEU prints it: `BLEU`, `chrF2`, `chrF2++`, `TER`; or the variant of BLEU."""

    score: float
    """In percent, unrounded. Higher is better, but for TER lower is, and it may exceed 100."""

    signature: str
    """sacreBLEU's: every choice that moves the figure, and its version."""

    detail: Mapping[str, object] = field(default_factory=dict)
    """What the figure is made of; its keys depend on the metric."""

    comparable_with: str = ""
    """Whose figures were computed so, where the signature does not say it."""


@dataclass(frozen=True)
class Variant:
    """How a metric is applied to text, where that is not sacreBLEU's own way."""

    name: str
    comparable_with: str
    tokenizer: str | None = None
    """What the signature calls the tokenizer."""
    prepare: Callable[[str], str] = str
    """What is done to each line before the metric sees it."""


class Measure:
    """A metric with every choice made and its references read, for any number of outputs."""

    def __init__(self, metric: Metric, variant: Variant | None = None) -> None:
        """Take a metric that holds its references, prepared as the variant has it."""
        self._metric = metric
        self._variant = variant

    # The two methods below are what sacreBLEU's own tests of significance stand on, too.

    def count(self, hypotheses: Sequence[str]) -> LineCounts:
        """Count what the metric counts in each of N lines."""
        if self._variant is not None:
            hypotheses = [self._variant.prepare(line) for line in hypotheses]
        counts: LineCounts = self._metric._extract_corpus_statistics(hypotheses, None)
        return counts

    def value(self, sums: Sequence[float]) -> float:
        """Return the figure, in percent, of counts that were added up over any lines."""
        result: SacreScore = self._metric._compute_score_from_stats(list(sums))
        return result.score

    def score(self, counts: LineCounts, drawn: Mapping[str, int] | None = None) -> Score:
        """Return the figure of all lines; `drawn` is what the signature says of resampling."""
        result: SacreScore = self._metric._aggregate_and_compute(counts)
        signature, detail = self._signature(drawn or {}), _detail(result)
        if self._variant is None:
            return Score(result.name, result.score, signature, detail)
        name, comparable_with = self._variant.name, self._variant.comparable_with
        return Score(name, result.score, signature, detail, comparable_with)

    def of_lines(self) -> Measure:
        """Return the measure as sacreBLEU applies it to single lines.

        Of BLEU, these are the orders of n-grams that a line is long enough for.
        """
        metric = copy(self._metric)
        if isinstance(metric, BLEU):
            metric.effective_order = True
        return Measure(metric, self._variant)

    def _signature(self, drawn: Mapping[str, int]) -> str:
        signature = self._metric.get_signature()
        for key, number in drawn.items():
            signature.update(key, number)
        if self._variant is not None and self._variant.tokenizer is not None:
            signature.update("tok", self._variant.tokenizer)
        return str(signature)


@dataclass(frozen=True)
class _Choices:
    """What is the user's choice; all else is sacreBLEU's default."""

    references: References
    tokenize: str
    lowercase: bool


# `force` only stops sacreBLEU from logging about tokenised text; see `nmt.scoring.pitfalls`.
_METRICS: dict[str, Callable[[_Choices], Metric]] = {
    "bleu": lambda c: BLEU(
        tokenize=c.tokenize, lowercase=c.lowercase, force=True, references=c.references
    ),
    "chrf": lambda c: CHRF(lowercase=c.lowercase, references=c.references),
    "chrf++": lambda c: CHRF(lowercase=c.lowercase, word_order=2, references=c.references),
    "ter": lambda c: TER(references=c.references),
}
METRICS = tuple(_METRICS)


def measures(
    names: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> dict[str, Measure]:
    """Return metric name -> measure, in the order of `METRICS`.

    names: out of `METRICS`.
    tokenize: BLEU's tokenizer, out of `TOKENIZERS`.
    lowercase: BLEU and chrF ignore case; TER, as Tercom defined it, always does.

    Raises UsageError for an unknown metric or tokenizer.
    """
    check_metrics(names)
    check_tokenizer(tokenize)
    choices = _Choices(references, tokenize, lowercase)
    return {name: Measure(make(choices)) for name, make in _METRICS.items() if name in names}


def bleu_variant(references: References, variant: Variant, *, lowercase: bool = False) -> Measure:
    """Return a variant of BLEU: as Moses' multi-bleu.perl has it where it has tokens of its own.

    That is without smoothing, on what stands between spaces; otherwise it is sacreBLEU's.
    """
    if variant.tokenizer is None:
        metric = BLEU(lowercase=lowercase, force=True, references=references)
        return Measure(metric, variant)
    prepared = [[variant.prepare(line) for line in lines] for lines in references]
    metric = BLEU(
        tokenize="none", smooth_method="none", lowercase=lowercase, force=True, references=prepared
    )
    return Measure(metric, variant)


def score(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = ("bleu",),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> dict[str, Score]:
    """Score a corpus, and return metric name -> figure in the order of `METRICS`.

    hypotheses: N lines, detokenised.
    references: R > 1 where a line has several translations.
    metrics, tokenize, lowercase: as `measures` takes them.

    Raises DataError where there is nothing to score or the numbers of lines differ, and UsageError
    for an unknown metric or tokenizer.
    """
    if not references:
        raise DataError("nothing to score against: expected at least one reference")
    named = [(f"reference {r}", len(lines)) for r, lines in enumerate(references, start=1)]
    check_line_counts([*named, ("the hypothesis", len(hypotheses))])
    asked = measures(metrics, references, tokenize=tokenize, lowercase=lowercase)
    return {name: measure.score(measure.count(hypotheses)) for name, measure in asked.items()}


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
                + wmt14_hint(count, other_count)
            )
    for name, count in counted:
        if count == 0:
            raise DataError(f"{name} has no lines; there is nothing to score")
