"""How `nmt score` puts its figures: as one JSON object, or as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nmt import console
from nmt.scoring.figures import Figure
from nmt.scoring.metrics import Score

if TYPE_CHECKING:
    from nmt.scoring.significance import Interval


def print_json(figures: Mapping[str, Figure], baselines: Sequence[str], percent: float) -> None:
    """Print one object: each metric's key to its score, its signature and all else.

    baselines: names of their files.
    percent: what an interval holds.
    """
    objects = {key: _as_object(figure, baselines, percent) for key, figure in figures.items()}
    print(json.dumps(objects, indent=2))


def print_figures(figures: Mapping[str, Figure], percent: float) -> None:
    """Print a row for each metric."""
    rows = [
        {
            "metric": figure.score.name,
            "score": f"{figure.score.score:.2f}",
            f"{percent:g} % interval": _range(figure.interval) if figure.interval else "",
            "comparable with": figure.score.comparable_with,
            "signature": figure.score.signature,
            "detail": _detail(figure.score),
        }
        for figure in figures.values()
    ]
    kept = [name for name in rows[0] if any(row[name] for row in rows)]
    console.print_table(kept, [[row[name] for name in kept] for row in rows])


def print_comparisons(
    figures: Mapping[str, Figure], baselines: Sequence[str], percent: float
) -> None:
    """Print a row for each metric and baseline."""
    columns = (
        *("metric", "baseline", "its score", "difference", f"{percent:g} % interval"),
        *("p, paired bootstrap", "p, approximate randomisation"),
    )
    rows = [
        (
            figure.score.name,
            console.printable(baseline),
            f"{comparison.baseline:.2f}",
            f"{comparison.difference:+.2f}",
            _range(comparison.interval, sign="+"),
            f"{comparison.p_bootstrap:.4f}",
            f"{comparison.p_randomisation:.4f}",
        )
        for figure in figures.values()
        if figure.comparisons
        for baseline, comparison in zip(baselines, figure.comparisons, strict=True)
    ]
    console.print_table(columns, rows)


def print_lines(figures: Mapping[str, Figure], baselines: Sequence[str]) -> None:
    """Print a row for each line, numbered from 1: the output's figures, then each baseline's."""
    columns, scores = [], []
    for number, system in enumerate(["", *baselines]):
        for figure in figures.values():
            if figure.lines is not None:
                columns.append(f"{figure.score.name} {console.printable(system)}".strip())
                scores.append(figure.lines.scores[number])
    rows = zip(*scores, strict=True)
    console.print_table(
        ("line", *columns),
        [(str(n), *(f"{value:.2f}" for value in row)) for n, row in enumerate(rows, start=1)],
    )
    for figure in figures.values():
        if figure.lines is not None:
            console.notice(f"{figure.score.name} of lines: {figure.lines.signature}")


def _as_object(figure: Figure, baselines: Sequence[str], percent: float) -> dict[str, object]:
    result = figure.score
    answer: dict[str, object] = {
        "score": result.score,
        "signature": result.signature,
        "name": result.name,
        **result.detail,
    }
    if result.comparable_with:
        answer["comparable_with"] = result.comparable_with
    if figure.interval is not None:
        answer["confidence"] = {**_ends(figure.interval, percent), "mean": figure.interval.mean}
    if figure.lines is not None:
        answer["sentences"] = figure.lines.scores[0]
        answer["sentence_signature"] = figure.lines.signature
    if figure.comparisons:
        answer["baselines"] = [
            {
                "file": baseline,
                "score": comparison.baseline,
                "difference": comparison.difference,
                "confidence": _ends(comparison.interval, percent),
                "p_bootstrap": comparison.p_bootstrap,
                "p_randomisation": comparison.p_randomisation,
            }
            | ({"sentences": figure.lines.scores[number]} if figure.lines else {})
            for number, (baseline, comparison) in enumerate(
                zip(baselines, figure.comparisons, strict=True), start=1
            )
        ]
    return answer


def _ends(interval: Interval, percent: float) -> dict[str, float]:
    return {"percent": percent, "lower": interval.lower, "upper": interval.upper}


def _range(interval: Interval, sign: str = "") -> str:
    return f"{interval.lower:{sign}.2f} to {interval.upper:{sign}.2f}"


def _detail(result: Score) -> str:
    if result.comparable_with:  # of variants of BLEU, which are looked at side by side
        return ""
    return ", ".join(f"{key.replace('_', ' ')} {_short(v)}" for key, v in result.detail.items())


def _short(value: object) -> str:
    if isinstance(value, list):
        return "/".join(f"{one:.1f}" for one in value)
    return f"{round(value, 3) if isinstance(value, float) else value:,}"
