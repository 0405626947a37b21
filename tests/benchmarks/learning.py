"""Models that learn one text by one recipe, in turn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
    seconds: list[float]
    """Of training alone."""
    bleu: list[float]
    """Of the valid text."""


def train(model: Model, data: Path, run: Path, updates: int, every: int) -> None:
    """Go on to so many updates if the run has fewer; validate every so many."""
    if not run.exists() or updates not in history(run).updates:
        values = {**RECIPE, **model.changes, "learning_rate": model.learning_rate}
        values |= {"max_updates": updates, "validate_every": every, "log_every": every}
        command = ["train", str(data), "--out", str(run), "--model", model.preset, "--quiet"]
        command += [f"--set={key}={value}" for key, value in values.items()]
        subprocess.run([sys.executable, "-m", "nmt", *command], check=True, env=environment())


def history(run: Path) -> History:
    """Read a run's metrics."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    seconds = {one["update"]: one["seconds"] for one in records if one["kind"] == "train"}
    bleu = {one["update"]: one["bleu"] for one in records if one["kind"] == "valid"}
    return History(list(bleu), [seconds[update] for update in bleu], list(bleu.values()))
