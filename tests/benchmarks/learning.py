"""How BLEU grows in training, over updates and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from benchmarks.harness import nmt, publish_picture
from toy_training import metrics

from nmt.plot import Panel, draw_curves


@dataclass(frozen=True)
class Curve:
    """BLEU and speed of a system."""

    bleu: Mapping[int, float]
    """By update."""
    seconds: Sequence[float]
    """Of an update, for each measurement."""

    @property
    def minutes(self) -> list[float]:
        """Return the time until each BLEU, by the median time of an update."""
        return [update * median(self.seconds) / 60 for update in self.bleu]

    def bleu_at(self, minutes: float) -> float:
        """Return BLEU after a time, between two validations by interpolation."""
        return float(np.interp(minutes, self.minutes, list(self.bleu.values())))


def train(data: Path, out: Path, preset: str, updates: int, values: Mapping[str, object]) -> None:
    """Train until the run has `updates` updates."""
    validated = {one["update"] for one in metrics(out, "valid")} if out.exists() else set()
    if updates not in validated:
        assignments = {**values, "max_updates": updates}
        settings = [f"--set={key}={value}" for key, value in assignments.items()]
        nmt("train", data, "--out", out, "--model", preset, "--quiet", *settings)


def curve_of(out: Path) -> Curve:
    """Return the curve of a run that has validated BLEU, with the time since each validation."""
    seconds = {0: 0.0} | {one["update"]: one["seconds"] for one in metrics(out, "train")}
    bleu = {one["update"]: one["bleu"] for one in metrics(out, "valid")}
    stretches = pairwise([0, *bleu])
    return Curve(bleu, [(seconds[b] - seconds[a]) / (b - a) for a, b in stretches])


def draw(
    name: str,
    title: str,
    text: str,
    x_label: str,
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> None:
    """Publish a picture of BLEU of a text; lines: places and BLEU, by system."""
    series = [(system, list(zip(x, y, strict=True))) for system, (x, y) in lines.items()]
    panel = Panel(f"BLEU over {name.rpartition('-')[2]}", series, text)
    publish_picture(name, draw_curves([panel], title, x_label=x_label))


def draw_learning(prefix: str, title: str, text: str, curves: Mapping[str, Curve]) -> None:
    """Publish pictures of BLEU over updates and over time."""
    by_update = {name: (list(one.bleu), list(one.bleu.values())) for name, one in curves.items()}
    by_time = {name: (one.minutes, list(one.bleu.values())) for name, one in curves.items()}
    draw(f"{prefix}bleu-over-updates", title, text, "update", by_update)
    draw(f"{prefix}bleu-over-time", title, text, "minutes of training", by_time)
