"""The options of `nmt score`, and the names of metrics and of criteria."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.config.fields import check, value
from nmt.tables.formats import QUOTINGS, name_and_value

METRICS = ("bleu", "chrf", "chrf++", "ter")
DEFAULT_METRICS = ("bleu", "chrf")  # TER takes minutes if lines are long
REFERENCE, SCORE, AGREEMENT = CRITERIA = ("reference", "score", "agreement")
"""By what `nmt distill` chooses translations; see `nmt.scoring.choice`."""

# sacreBLEU's. Those of MeCab need other packages, and the last four download a model.
TOKENIZERS = tuple(
    "13a intl zh char none ja-mecab ko-mecab flores101 flores200 spm spBLEU-1K".split()
)


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How often to draw, and the confidence level."""

    samples: int = 1000  # of the bootstrap
    trials: int = 10_000  # of approximate randomisation
    seed: int = 12345  # sacreBLEU's default, too; it takes 0 for no seed
    level: float = 95.0  # percent of the bootstrap samples that an interval holds, at most 99

    @property
    def samples_outside(self) -> int:
        """Samples above an interval, and below it."""
        return int(round(self.samples * (100 - self.level) / 200, 6))


def problems_of_quoting(quoting: Iterable[str]) -> Iterator[str]:
    """Yield which FILE=VALUE says something else than csv or none."""
    for text in quoting:
        if name_and_value(text)[1] not in QUOTINGS:
            yield f"--quoting {text}: must be FILE=csv or FILE=none"


@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """What to compare, by which metrics, and what to print."""

    references: tuple[Path, ...] = value(
        (), "Another human translation. You can repeat it.", option="--reference", metavar="FILE"
    )
    baselines: tuple[Path, ...] = value(
        (),
        "Another machine translation. Tests tell you whether HYPOTHESIS differs from it by more "
        "than chance. You can repeat it.",
        option="--baseline",
        metavar="FILE",
    )
    source: Path | None = value(
        None,
        "The source text. You get a warning if lines of HYPOTHESIS just repeat it.",
        metavar="FILE",
    )
    encoding: str = value("utf-8", "Character encoding of the files. Stdin is UTF-8.", panel="Text")
    quoting: tuple[str, ...] = value(
        (),
        "Whether the cells of a TSV are quoted, as in test.tsv=none. You are asked for it if the "
        "cells do not show it.",
        metavar="FILE=csv|none",
        shown="found by the cells",
        panel="Text",
    )
    metrics: tuple[str, ...] = value(
        (),
        "A metric. You can repeat it.",
        option="--metric",
        choices=METRICS,
        shown=", ".join(DEFAULT_METRICS),
    )
    tokenize: str | None = value(
        None,
        "BLEU's tokenizer. Those of MeCab need the extras ja and ko. The last four download a "
        "model when you first use them.",
        choices=TOKENIZERS,
        shown="by the language",
        panel="Metrics",
    )
    lowercase: bool = value(
        False, "Ignore case in BLEU and chrF. TER always does.", panel="Metrics"
    )
    card: bool = value(
        False, "Print every variant of BLEU instead, and which published scores each compares with."
    )
    lang: str | None = value(
        None,
        "The language of the translation. It decides how BLEU, TER and --card split words.",
        metavar="LANG",
        shown="the ending of REFERENCE",
    )
    confidence: float | None = value(
        None,
        "Add a confidence interval to each score, by bootstrap resampling. 95 is usual.",
        minimum=50,
        maximum=99,
        metavar="PERCENT",
        shown="no interval; 95 for differences",
    )
    json: bool = value(
        False, "Print one JSON object: for each metric its score, signature and details."
    )

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the combination of options."""
        yield from problems_of_quoting(self.quoting)
        if self.card and (self.metrics or self.tokenize or self.lowercase):
            yield "--card has its own metrics: leave out --metric, --tokenize, --lowercase"
        elif self.tokenize and "bleu" not in (self.metrics or DEFAULT_METRICS):
            yield "--tokenize is BLEU's, which --metric leaves out"

    @property
    def resampling(self) -> Resampling | None:
        """How to resample, if intervals or comparisons are printed."""
        if self.confidence is None and not self.baselines:
            return None
        return Resampling(level=self.confidence or Resampling.level)
