"""A run's learning curves, from its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nmt.plot import Panel, Point, Series, draw_curves


def curves_from_metrics(records: Iterable[Mapping[str, object]]) -> str:
    """Draw the records of a run's `metrics.jsonl`; the BLEU panel is there once BLEU was taken."""
    kept = list(records)

    def series(kind: str, key: str, label: str = "") -> Series:
        return Series(label or kind, _points(kept, kind, key))

    panels = [
        Panel(
            "nll",
            (series("train", "nll"), series("valid", "nll")),
            "unsmoothed negative log-likelihood, nats per token",
        ),
        Panel(
            "Perplexity",
            (series("train", "perplexity"), series("valid", "perplexity")),
            "log scale",
            log_scale=True,
        ),
        Panel("BLEU", (series("valid", "bleu"),), "percent"),
        Panel("Learning rate", (series("train", "learning_rate", "rate"),), ""),
        Panel(
            "Speed", (series("train", "tokens_per_second"),), "source and target tokens per second"
        ),
        Panel("Gradient norm", (series("train", "grad_norm"),), ""),
    ]
    if not panels[2].series[0].points:
        del panels[2]
    return draw_curves(panels, "Learning curves")


def _points(records: Sequence[Mapping[str, object]], kind: str, key: str) -> list[Point]:
    """Pick (update, value) from the records of one kind that have a number under `key`."""
    return [
        (update, value)
        for record in records
        if record.get("kind") == kind
        and isinstance(update := record.get("update"), int | float)
        and isinstance(value := record.get(key), int | float)
    ]
