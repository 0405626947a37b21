"""Systems whose training is timed, each in its own process, and the work of a token."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

import numpy as np
from benchmarks.harness import NMT, in_turn, run
from toy_training import metrics

from nmt.config.model_config import TransformerConfig
from nmt.config.presets import preset_values
from nmt.config.recipes import resolve_recipe
from nmt.data.batches import LengthSums
from nmt.data.folder import DataFolder
from nmt.models.flops import training_flops

_NEVER = 1_000_000_000
_FEWEST_UPDATES = 5  # that are timed


@dataclass(frozen=True)
class Job:
    """The data, the model and the batches of a training."""

    data: Path
    preset: str
    batch_tokens: int
    device: str = "cpu"
    textbook_pairs: int = 30_000
    """The most pairs that the textbook takes. It keeps its text as Python lists."""


@dataclass(frozen=True)
class Measurement:
    """The speed and memory of a training."""

    tokens_per_second: float
    """Source and target tokens, eos included, after the warm-up."""
    peak_bytes: int
    """Resident memory of the process at its highest."""


Contender = Callable[[int, int], Measurement]
"""Takes the numbers of updates of warm-up, which are not timed, and of timed updates."""


def textbook(job: Job, precision: str) -> Contender:
    """Return the textbook model of the job's size."""
    config = config_of(job.preset)
    sizes = config.d_model, config.d_ff, config.num_heads, config.num_encoder_layers
    fixed = [job.data, job.device, precision, job.batch_tokens]

    def train(warmup: int, updates: int) -> Measurement:
        arguments = [*fixed, warmup, updates, job.textbook_pairs, *sizes]
        done = run([sys.executable, "-m", "benchmarks.textbook", *map(str, arguments)])
        return Measurement(json.loads(done.stdout)["tokens_per_second"], done.peak_bytes)

    return train


def nmt(job: Job, precision: str, folder: Path, *settings: str) -> Contender:
    """Return `nmt train`, with its run folders in `folder`."""

    def train(warmup: int, updates: int) -> Measurement:
        out = Path(mkdtemp(dir=folder)) / "run"
        done = run([*NMT, *nmt_command(job, precision, out, warmup, updates, *settings)])
        if job.device == "cuda":  # where compiling for another length takes seconds, once
            rate = median(one["tokens_per_second"] for one in metrics(out, "train")[1:])
        else:
            rate = rate_after_warmup(out)
        return Measurement(rate, done.peak_bytes)

    return train


def nmt_command(
    job: Job, precision: str, out: Path, warmup: int, updates: int, *settings: str
) -> list[str]:
    """Return the arguments of `nmt` for a training without validation and saving."""
    values = {"log_every": warmup, "validate_every": _NEVER, "save_every": _NEVER}
    assignments = [*(f"{key}={value}" for key, value in values.items()), *settings]
    return [
        *("train", str(job.data), "--out", str(out), "--model", job.preset, "--quiet"),
        *("--precision", precision, "--device", job.device),
        *("--batch-tokens", str(job.batch_tokens), "--max-updates", str(warmup + updates)),
        *(f"--set={assignment}" for assignment in assignments),
    ]


def rate_after_warmup(out: Path) -> float:
    """Return the mean tokens a second of a run's windows after the first."""
    windows = metrics(out, "train")
    seconds = [now["seconds"] - before["seconds"] for before, now in pairwise(windows)]
    tokens = sum(w["tokens_per_second"] * s for w, s in zip(windows[1:], seconds, strict=True))
    return float(tokens / sum(seconds))


def timed(
    systems: Mapping[str, Contender],
    tokens: Mapping[str, float],
    *,
    warmup: int,
    seconds: float,
    rounds: int,
) -> dict[str, list[Measurement]]:
    """Time systems in turn, each for as many updates as it needs for some seconds.

    tokens: of an update on both sides, by system.
    """
    trials = {name: train(1, 2) for name, train in systems.items()}  # how fast each one is
    updates = {
        name: max(_FEWEST_UPDATES, round(seconds * trial.tokens_per_second / tokens[name]))
        for name, trial in trials.items()
    }
    return in_turn({n: partial(train, warmup, updates[n]) for n, train in systems.items()}, rounds)


def config_of(preset: str) -> TransformerConfig:
    """Return the configuration of a Transformer's preset."""
    config = resolve_recipe(preset, "transformer", [(preset, preset_values(preset))]).model
    assert isinstance(config, TransformerConfig)
    return config


def flops_per_token(preset: str, data: DataFolder) -> float:
    """Return the FLOPs of forward and backward pass by source or target token of the data."""
    sums = LengthSums.of_pairs(*data.train.lengths(np.arange(len(data.train))))
    flops = training_flops("transformer", config_of(preset), len(data.tgt_vocabulary), sums)
    return flops / (sums.src + sums.tgt)


def update_tokens(data: DataFolder, batch_tokens: int) -> float:
    """Return the tokens of an update on both sides; batch_tokens are those of the longer side."""
    counts = data.info.train
    sides = [side.tokens + counts.pairs for side in (counts.src, counts.tgt)]
    return batch_tokens * sum(sides) / max(sides)
