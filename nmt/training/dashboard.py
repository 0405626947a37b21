"""What a running training shows on a terminal, as rows of label and text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

_TRAINING = {
    "nll": "nll {:.3f}",
    "perplexity": "perplexity {:.2f}",
    "loss": "smoothed loss {:.3f}",
    "learning_rate": "learning rate {:.3g}",
    "grad_norm": "gradient {:.3f}",
}
_SPEED = {
    "tokens_per_second": "{:,.0f} tokens/s",
    "mfu": "mfu {:.1%}",
    "padding": "padding {:.1%}",
    "data_wait": "data wait {:.1%}",
    "skipped_updates": "skipped updates {:,}",
}
_VALID = {
    "nll": "nll {:.4f}",
    "perplexity": "perplexity {:.3f}",
    "loss": "smoothed loss {:.4f}",
    "bleu": "BLEU {:.2f}",
}
_HISTORY = {"nll": "valid nll", "bleu": "valid BLEU"}
_BARS = "▁▂▃▄▅▆▇█"
_NEWEST = 40  # validations in a sparkline


def rows(train: Record, valid: Sequence[Record], best: int | None) -> list[tuple[str, str]]:
    """Lay out a run's latest figures.

    Args:
        train: the latest training record; empty where there is none yet.
        valid: all validation records, in order.
        best: the update that validated best.
    """
    found = []
    if train:
        found += [("training", _figures(train, _TRAINING)), ("speed", _figures(train, _SPEED))]
    if valid:
        found.append(("last valid", _at_update(valid[-1])))
    found += [("best valid", _at_update(record)) for record in valid if record["update"] == best]
    for key, label in _HISTORY.items():
        values = [record[key] for record in valid if key in record][-_NEWEST:]
        if len(values) > 1:
            found.append((label, f"{sparkline(values)} {values[0]:.4g} to {values[-1]:.4g}"))
    for sample in valid[-1].get("samples", ()) if valid else ():
        found += [(label, sample[label]) for label in ("source", "reference", "translation")]
    return found


def _at_update(valid: Record) -> str:
    return f"update {valid['update']:,}: {_figures(valid, _VALID)}"


def _figures(record: Record, formats: Mapping[str, str]) -> str:
    """Write those of the figures that a record has."""
    found = [(form, record.get(key)) for key, form in formats.items()]
    return ", ".join(form.format(value) for form, value in found if value is not None)


def sparkline(values: Sequence[float]) -> str:
    """Draw values as bars of eight heights, the lowest of them to the highest."""
    finite = [value for value in values if math.isfinite(value)]
    low = min(finite, default=0.0)
    step = (max(finite, default=0.0) - low) / (len(_BARS) - 1) or 1.0
    return "".join(
        _BARS[round((value - low) / step)] if math.isfinite(value) else " " for value in values
    )
