"""Which of a teacher's translations a student learns: those nearest to the reference.

With one of each line, this is interpolated sequence-level distillation (Kim and Rush 2016, section
3.3). With more, the student also sees how else the teacher would say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sacrebleu import BLEU, CHRF


class Translated(NamedTuple):
    """A line of training text, and what a teacher would say."""

    source: str
    reference: str
    texts: list[str]  # the likeliest first


@dataclass(frozen=True)
class NearestTranslations:
    """Chooses the translations nearest to the reference; it can be sent to other processes."""

    keep: int
    """Translations of a line, at most."""
    min_chrf: float
    """If teacher and reference hardly agree, one of them is wrong, mostly the teacher."""
    tokenize: str = "13a"
    """BLEU's tokenizer, which is the target language's."""

    @cached_property
    def _metrics(self) -> tuple[BLEU, CHRF]:
        return BLEU(tokenize=self.tokenize, effective_order=True), CHRF()

    def of_lines(self, lines: Sequence[Translated]) -> list[list[str]]:
        return [self.of_line(line.texts, line.reference) for line in lines]

    def of_line(self, texts: Sequence[str], reference: str) -> list[str]:
        """Return the translations with the best sentence BLEU, less those with too low a chrF."""
        bleu, chrf = self._metrics
        ranked = sorted(
            filter(None, texts),
            key=lambda text: bleu.sentence_score(text, [reference]).score,
            reverse=True,
        )
        return [
            text
            for text in ranked[: self.keep]
            if chrf.sentence_score(text, [reference]).score >= self.min_chrf
        ]
