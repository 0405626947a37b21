"""BLEU, chrF, chrF++ and TER, each with the signature that makes its score comparable.

The scores are sacreBLEU's. Give detokenised text in its own case: the tokenizer belongs to the
metric, and the signature records it (Post 2018, "A Call for Clarity in Reporting BLEU Scores").

A corpus score is computed from counts that add up over lines. `Metric.count` returns the counts of
each line, so that resampling need not look at the text again (`nmt.scoring.significance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric as SacreMetric
from sacrebleu.metrics.base import Score as SacreScore
from sacrebleu.metrics.bleu import BLEUScore
from sacrebleu.metrics.ter import TERScore
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from nmt.errors import DataError, UsageError, did_you_mean
from nmt.scoring.options import METRICS, TOKENIZERS
from nmt.scoring.text_warnings import wmt14_hint
from nmt.scoring.tokenizers import check_tokenizer

References = Sequence[Sequence[str]]  # R references of N lines each

LineCounts = list[list[float]]
"""What a metric counts in each of N lines, such as n-grams and matches. Rows can be added up."""


@dataclass(frozen=True)
class Score:
    """A score, and what you need to compare it with others."""

    name: str  # as sacreBLEU prints it: `BLEU`, `chrF2`, `chrF2++`, `TER`; or the variant of BLEU
    score: float
    """In percent, not rounded. Higher is better, except for TER, which can also exceed 100."""

    signature: str  # sacreBLEU's: its version, and every choice that changes the score
    detail: Mapping[str, object] = field(default_factory=dict)
    """The parts of the score. The keys depend on the metric."""

    comparable_with: str = ""
    """Which published scores it compares with, if the signature does not say so."""


class Variant(NamedTuple):
    """A way to apply BLEU to text that is not sacreBLEU's."""

    name: str
    comparable_with: str
    tokenizer: str | None = None  # the tokenizer's name in the signature
    prepare: Callable[[str], str] = str  # applied to each line first


class Metric:
    """A metric with its references and settings, which can score any number of outputs."""

    def __init__(self, metric: SacreMetric, variant: Variant | None = None) -> None:
        """Take sacreBLEU's metric, which holds the references as the variant prepares them."""
        self._metric = metric
        self._variant = variant

    # sacreBLEU's own significance tests use the private methods below, too.

    def count(self, hypotheses: Iterable[str]) -> LineCounts:
        """Return the counts of each of N lines, which are taken one by one."""
        if self._variant is not None:
            hypotheses = map(self._variant.prepare, hypotheses)
        counts: LineCounts = self._metric._extract_corpus_statistics(
            cast(Sequence[str], hypotheses), None
        )
        return counts

    def value(self, sums: Sequence[float]) -> float:
        """Return the score, in percent, of counts that were added up over some lines."""
        result: SacreScore = self._metric._compute_score_from_stats(list(sums))
        return result.score

    def score(self, counts: LineCounts, resampling: Mapping[str, int] | None = None) -> Score:
        """Return the score of all lines; `resampling` is added to the signature."""
        result: SacreScore = self._metric._aggregate_and_compute(counts)
        signature = self._metric.get_signature()
        for key, number in (resampling or {}).items():
            signature.update(key, number)
        name, comparable_with = result.name, ""
        if self._variant is not None:
            name, comparable_with = self._variant.name, self._variant.comparable_with
            if self._variant.tokenizer is not None:
                signature.update("tok", self._variant.tokenizer)
        return Score(name, result.score, str(signature), _detail(result), comparable_with)


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


def make_metrics(
    names: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    han_words: bool = False,
) -> dict[str, Metric]:
    """Return name -> metric in the order of `METRICS`.

    names: some of `METRICS`.
    references: R > 1 if a line has several translations. A blank one is none if another has text.
    tokenize: BLEU's tokenizer, one of `TOKENIZERS`.
    lowercase: BLEU and chrF ignore case. TER always does, as Tercom defined it.
    han_words: TER takes Chinese characters and signs as words, for text without spaces.
    UsageError: for an unknown metric or tokenizer, or one whose packages are missing. DataError:
    for a tokenizer whose model cannot be downloaded.
    """
    for name in names:
        if name not in METRICS:
            raise UsageError(f"unknown metric {name!r}{did_you_mean(name, METRICS)}")
    if tokenize not in TOKENIZERS:
        raise UsageError(f"unknown tokenizer {tokenize!r}{did_you_mean(tokenize, TOKENIZERS)}")
    references = _partial(references)
    made: dict[str, Callable[[], SacreMetric]] = {
        "bleu": lambda: _bleu(tokenize, lowercase=lowercase, references=references),
        "chrf": lambda: CHRF(lowercase=lowercase, references=references),
        "chrf++": lambda: CHRF(lowercase=lowercase, word_order=2, references=references),
        "ter": lambda: TER(normalized=han_words, asian_support=han_words, references=references),
    }
    return {name: Metric(made[name]()) for name in METRICS if name in names}


def _partial(references: References) -> References:
    """Return references with None for blank lines where another reference has text.

    sacreBLEU leaves None out. A blank line would be the shortest reference, which takes away
    BLEU's brevity penalty.
    """
    if len(references) == 1:
        return references
    rows = [
        [line if line.strip() or not any(map(str.strip, lines)) else None for line in lines]
        for lines in zip(*references, strict=True)
    ]
    return cast(References, list(zip(*rows, strict=True)))


def _bleu(tokenize: str, *, lowercase: bool, references: References) -> BLEU:
    check_tokenizer(tokenize)
    try:
        # `force` only stops sacreBLEU from logging about tokenised text (see `text_warnings`).
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True, references=references)
    except (OSError, RuntimeError, SystemExit) as error:
        if tokenize not in SPM_MODELS:
            raise
        reason = getattr(error, "reason", error)
        models = Path(SACREBLEU_DIR) / "models"
        raise DataError(
            f"the tokenizer {tokenize} has no model in {models} ({reason}); download it once with "
            "access to the network, or remove a damaged one"
        ) from None


def bleu_variant(references: References, variant: Variant, *, lowercase: bool = False) -> Metric:
    """Return a variant of BLEU.

    With a tokenizer of its own it is that of Moses' multi-bleu.perl: no smoothing, and tokens are
    what stands between spaces. Otherwise it is sacreBLEU's.
    """
    prepared = _partial([[variant.prepare(line) for line in lines] for lines in references])
    of_moses = dict[str, Any](tokenize="none", smooth_method="none") if variant.tokenizer else {}
    metric = BLEU(lowercase=lowercase, force=True, references=prepared, **of_moses)
    return Metric(metric, variant)


def score(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = ("bleu",),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> dict[str, Score]:
    """Score N detokenised lines, and return metric name -> score in the order of `METRICS`.

    The other arguments are those of `make_metrics`. DataError if there is nothing to score, or the
    numbers of lines differ. UsageError: for an unknown metric or tokenizer.
    """
    if not references:
        raise DataError("nothing to score against: expected at least one reference")
    named = [(f"reference {r}", len(lines)) for r, lines in enumerate(references, start=1)]
    check_line_counts([*named, ("the hypothesis", len(hypotheses))])
    made = make_metrics(metrics, references, tokenize=tokenize, lowercase=lowercase)
    return {name: metric.score(metric.count(hypotheses)) for name, metric in made.items()}


def check_line_counts(counted: Sequence[tuple[str, int]]) -> None:
    """Refuse texts, by name, that cannot be compared line by line (DataError)."""
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
