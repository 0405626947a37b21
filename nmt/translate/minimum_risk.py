"""Minimum Bayes risk: of a line's translations, the one that agrees most with all of them.

A translation's utility is its mean score with each of the line's translations as the reference
(Kumar and Byrne 2004; Eikema and Aziz 2020). All count alike: of samples, likely texts are drawn
more often.
"""

from __future__ import annotations

from dataclasses import replace

from nmt.scoring.agreement import agreement
from nmt.translate.output import Translation
from nmt.translate.steps import LinesUnderWay


def order_by_utility(metric: str, lines: LinesUnderWay) -> None:
    """Put the translations of each line in the order of their utility."""
    for number, translation in lines.translations.items():
        lines.translations[number] = by_utility(translation, metric)


def by_utility(translation: Translation, metric: str) -> Translation:
    """Order a line's translations by their utility, best first. Ties keep their order.

    metric: chrf or bleu.
    """
    if translation.error or not translation.segments:  # blank
        return translation
    candidates = translation.n_best
    texts = [candidate.text for candidate in candidates]
    utilities = agreement(texts, metric).mean(axis=1).tolist()
    ordered = sorted(zip(utilities, candidates, strict=True), key=lambda scored: -scored[0])
    best, *others = (
        replace(candidate, utility=utility, others=()) for utility, candidate in ordered
    )
    return replace(best, others=tuple(others))
