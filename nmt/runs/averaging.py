"""Checkpoint averaging, which translates better than the last checkpoint (the paper, section 6.1).

One weight is averaged at a time, so any number of checkpoints needs the memory of about one model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt import console
from nmt.errors import DataError, UsageError
from nmt.models.model_file import FORMAT_VERSION, KIND, ModelReader, write_model
from nmt.models.tensor_file import TensorFile
from nmt.runs.checkpoint import BEST, CHECKPOINT, path_of, updates_of
from nmt.runs.run_folder import RunFolder, run_of
from nmt.system.files import resolved


def average_models(paths: Sequence[Path], out: Path) -> None:
    """Write the mean of several models' weights as a model file; DataError if they do not fit."""
    readers = [ModelReader(path) for path in paths]
    first = readers[0]
    for reader in readers[1:]:
        differences = first.card.differences(reader.card)
        if reader.weight_names != first.weight_names:
            differences.append("different weights")
        if differences:
            raise DataError(
                f"{first.path} and {reader.path} cannot be averaged: {'; '.join(differences)}"
            )
    weights = {}
    with console.progress("averaging", total=len(first.weight_names), unit="weights") as bar:
        for name in first.weight_names:
            weights[name] = _mean(name, readers)
            bar.update(1)
    newest = max(reader.card.update for reader in readers)
    head = first.card.alignment_head
    if any(reader.card.alignment_head != head for reader in readers):
        head = None  # the mean of a trained head and others shows nothing
    card = dataclasses.replace(first.card, update=newest, valid={}, alignment_head=head)
    write_model(out, card, weights)


def check_replaceable(out: Path, models: Sequence[Path]) -> None:
    """Refuse to overwrite one of the models, or what is not a model by itself (UsageError)."""
    if out.exists() and any(path.exists() and out.samefile(path) for path in models):
        raise UsageError(f"{out} is one of the models to average; choose another --out")
    if run_of(resolved(out)) is not None:
        raise UsageError(f"{out} belongs to a training run; choose another --out")
    try:
        if out.exists():
            TensorFile(out, kind=KIND, version=FORMAT_VERSION)
    except DataError:
        raise UsageError(
            f"{out} exists and is not a model file; choose another --out or remove it"
        ) from None


def _mean(name: str, readers: Sequence[ModelReader]) -> Tensor:
    total = readers[0].weight(name).double()
    for reader in readers[1:]:
        total += reader.weight(name)
    return (total / len(readers)).to(torch.float32)


def select_checkpoints(path: Path, count: int, *, best: bool) -> list[Path]:
    """Return a run's newest checkpoints, oldest first, or its best, best first (UsageError)."""
    run = RunFolder(path)
    name = BEST if best else CHECKPOINT
    checkpoints = [path_of(run, name, update) for update in updates_of(run, name)]
    if len(checkpoints) < count:
        raise UsageError(
            f"{path} has only {len(checkpoints)} of the {count} checkpoints; ask for fewer, or "
            f"train with a larger {'keep_best' if best else 'keep_last'}"
        )
    if not best:
        return checkpoints[-count:]
    metric = run.best_metric()
    sign = 1 if metric == "loss" else -1

    def rank(path: Path) -> tuple[float, float]:
        valid = ModelReader(path).card.valid
        return sign * valid[metric], valid["loss"]  # as training ranks them

    return sorted(checkpoints, key=rank)[:count]
