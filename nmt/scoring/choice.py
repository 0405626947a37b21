"""Which of a teacher's translations a student learns.

By reference, those nearest to it. With one of each line, this is interpolated sequence-level
distillation (Kim and Rush 2016, section 3.3). With more, the student also sees how else the teacher
would say it. By score, those that the teacher likes best, which is their sequence-level
distillation (section 3.2). By agreement, those nearest to all others of the line, which is minimum
Bayes risk (Kumar and Byrne 2004) over the teacher's list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from statistics import mean
from typing import NamedTuple

from sacrebleu import BLEU, CHRF

from nmt.scoring.options import AGREEMENT, REFERENCE


class Translated(NamedTuple):
    """A line of training text, and what a teacher would say."""

    source: str
    reference: str  # empty if there is none
    texts: list[str]  # the likeliest first
    scores: list[float]  # of each text; higher is better


@dataclass(frozen=True)
class Choice:
    """Chooses translations; it can be sent to other processes."""

    by: str
    """One of CRITERIA."""
    keep: int
    """Translations of a line, at most."""
    minimum: float
    """A translation below it is left out: of chrF by reference, else of what it is chosen by.

    If teacher and reference hardly agree, one of them is wrong, mostly the teacher.
    """
    tokenize: str = "13a"
    """BLEU's tokenizer, which is the target language's."""

    @cached_property
    def _metrics(self) -> tuple[BLEU, CHRF]:
        return BLEU(tokenize=self.tokenize, effective_order=True), CHRF()

    def of_lines(self, lines: Sequence[Translated]) -> list[list[str]]:
        return list(map(self.of_line, lines))

    def of_line(self, line: Translated) -> list[str]:
        """Return the best translations of a line, the best one first, less those that are bad."""
        texts = [text for text in line.texts if text]
        if self.by == REFERENCE:
            values = [self._bleu(text, line.reference) for text in texts]
        elif self.by == AGREEMENT:
            values = [self._agreement(texts, number) for number in range(len(texts))]
        else:
            values = [score for text, score in zip(line.texts, line.scores, strict=True) if text]
        best = sorted(zip(texts, values, strict=True), key=itemgetter(1), reverse=True)[: self.keep]
        if self.by == REFERENCE:
            chrf = self._metrics[1].sentence_score
            best = [(text, chrf(text, [line.reference]).score) for text, _ in best]
        return [text for text, value in best if value >= self.minimum]

    def _agreement(self, texts: Sequence[str], number: int) -> float:
        """Return the mean sentence BLEU of a text against the others; 0 if there are none."""
        others = [*texts[:number], *texts[number + 1 :]]
        return mean([self._bleu(texts[number], other) for other in others] or [0.0])

    def _bleu(self, text: str, reference: str) -> float:
        return self._metrics[0].sentence_score(text, [reference]).score
