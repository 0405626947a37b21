"""Models that learn the same text by the same recipe."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import environment

RECIPE: Mapping[str, object] = {
    "dropout": 0.3,
    "batch_tokens": 2000,
    "schedule": "inverse_sqrt",  # without a last update, so any training can continue
    "warmup_updates": 300,
    "ema_decay": 0.995,
    "precision": "fp32",
    "validate_bleu": "true",
    "sample_translations": 0,
    "save_every": 1_000_000,
}


@dataclass(frozen=True)
class Model:
    """A preset and its changes."""

    preset: str
    learning_rate: float
    """At its peak."""
    changes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """The results of a training, one for each validation."""

    updates: list[int]
    seconds_per_update: list[float]
    """Of training only, since the validation before."""
    bleu: list[float]
    """Of the valid text."""

    @property
    def seconds(self) -> list[float]:
        """Return the time until each validation, by the median time of an update."""
        usual = median(self.seconds_per_update)
        return [usual * update for update in self.updates]


def train(model: Model, data: Path, run: Path, updates: int, every: int) -> None:
    """Train until the run has `updates` updates, with a validation every `every` updates."""
    if not run.exists() or updates not in records(run, "valid"):
        values = {**RECIPE, **model.changes, "learning_rate": model.learning_rate}
        values |= {"max_updates": updates, "validate_every": every, "log_every": every}
        command = ["train", str(data), "--out", str(run), "--model", model.preset, "--quiet"]
        command += [f"--set={key}={value}" for key, value in values.items()]
        subprocess.run([sys.executable, "-m", "nmt", *command], check=True, env=environment())


def history(run: Path) -> History:
    """Read the metrics of a run that has validated BLEU."""
    seconds = {0: 0.0}
    seconds |= {update: one["seconds"] for update, one in records(run, "train").items()}
    bleu = {update: one["bleu"] for update, one in records(run, "valid").items()}
    stretches = pairwise([0, *bleu])
    return History(
        list(bleu),
        [(seconds[last] - seconds[first]) / (last - first) for first, last in stretches],
        list(bleu.values()),
    )


def records(run: Path, kind: str) -> dict[int, dict[str, Any]]:
    """Return a run's metrics of a kind, by update."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {one["update"]: one for one in map(json.loads, lines) if one["kind"] == kind}
