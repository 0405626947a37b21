"""Systems whose training is timed, each in its own process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks import processes

Environment = dict[str, str]

_TESTS = Path(__file__).parents[1]
_NEVER = 1_000_000_000


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


def environment() -> Environment:
    """Return this process's environment, with the benchmarks importable."""
    inherited = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, [inherited])])}


def textbook(job: Job, precision: str) -> Contender:
    """Return the textbook model of the job's size."""

    def train(warmup: int, updates: int) -> Measurement:
        arguments = [job.data, job.preset, job.device, precision, job.batch_tokens]
        arguments += [warmup, updates, job.textbook_pairs]
        command = [sys.executable, "-m", "benchmarks.textbook", *map(str, arguments)]
        done = processes.run(command, environment())
        return Measurement(json.loads(done.stdout)["tokens_per_second"], done.peak_bytes)

    return train


def nmt(job: Job, precision: str, folder: Path, *settings: str) -> Contender:
    """Return `nmt train`, with its run folders in `folder`."""

    def train(warmup: int, updates: int) -> Measurement:
        run = folder / f"run-{len(list(folder.iterdir()))}"
        command = nmt_command(job, precision, run, warmup, updates, *settings)
        done = processes.run([sys.executable, "-m", "nmt", *command], environment())
        return Measurement(rate_after_warmup(run, "tokens_per_second"), done.peak_bytes)

    return train


def nmt_command(
    job: Job, precision: str, run: Path, warmup: int, updates: int, *settings: str
) -> list[str]:
    """Return the arguments of `nmt` for a training without validation and saving."""
    values = {"log_every": warmup, "validate_every": _NEVER, "save_every": _NEVER}
    assignments = [*(f"{key}={value}" for key, value in values.items()), *settings]
    return [
        *("train", str(job.data), "--out", str(run), "--model", job.preset, "--quiet"),
        *("--precision", precision, "--device", job.device),
        *("--batch-tokens", str(job.batch_tokens), "--max-updates", str(warmup + updates)),
        *(f"--set={assignment}" for assignment in assignments),
    ]


def rate_after_warmup(run: Path, rate: str) -> float:
    """Return the mean rate of a run's windows after the first.

    rate: "tokens_per_second", or "update" for updates a second.
    """
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    windows = [record for line in lines if (record := json.loads(line))["kind"] == "train"]
    seconds = [now["seconds"] - before["seconds"] for before, now in pairwise(windows)]
    if rate == "update":
        return float((windows[-1]["update"] - windows[0]["update"]) / sum(seconds))
    tokens = sum(w[rate] * s for w, s in zip(windows[1:], seconds, strict=True))
    return float(tokens / sum(seconds))
