"""Models that learn one text by one recipe, in turn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import environment

RECIPE: Mapping[str, object] = {
    "dropout": 0.3,
    "batch_tokens": 2000,
    "schedule": "inverse_sqrt",  # knows no last update, so that any training can go on
    "warmup_updates": 300,
    "ema_decay": 0.995,
    "precision": "fp32",
    "validate_bleu": "true",
    "sample_translations": 0,
    "save_every": 1_000_000,
}


@dataclass(frozen=True)
class Model:
    """What is trained."""

    preset: str
    learning_rate: float
    """At its peak."""
    changes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """What a training has reached, an entry each validation."""

    updates: list[int]
    seconds_per_update: list[float]
    """Of training alone, between that validation and the one before."""
    bleu: list[float]
    """Of the valid text."""

    @property
    def seconds(self) -> list[float]:
        """Return the time taken until each, as if all stretches had taken what is usual for one."""
        usual = median(self.seconds_per_update)
        return [usual * update for update in self.updates]


def train(model: Model, data: Path, run: Path, updates: int, every: int) -> None:
    """Go on to so many updates if the run has fewer; validate every so many."""
    if not run.exists() or updates not in _valid(run):
        values = {**RECIPE, **model.changes, "learning_rate": model.learning_rate}
        values |= {"max_updates": updates, "validate_every": every, "log_every": every}
        command = ["train", str(data), "--out", str(run), "--model", model.preset, "--quiet"]
        command += [f"--set={key}={value}" for key, value in values.items()]
        subprocess.run([sys.executable, "-m", "nmt", *command], check=True, env=environment())


def history(run: Path) -> History:
    """Read the metrics of a run that has validated BLEU."""
    bleu = {update: one["bleu"] for update, one in _valid(run).items()}
    return History(list(bleu), seconds_per_update(run, list(bleu)), list(bleu.values()))


def seconds_per_update(run: Path, updates: Sequence[int]) -> list[float]:
    """Return those of the stretches that end with these updates, of training alone."""
    seconds = {0: 0.0}
    seconds |= {one["update"]: one["seconds"] for one in _records(run) if one["kind"] == "train"}
    return [
        (seconds[end] - seconds[start]) / (end - start) for start, end in pairwise([0, *updates])
    ]


def _valid(run: Path) -> dict[int, dict[str, Any]]:
    return {one["update"]: one for one in _records(run) if one["kind"] == "valid"}


def _records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
