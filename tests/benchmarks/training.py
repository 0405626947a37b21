"""Systems whose training is timed, each in its own process: `nmt train` and Marian."""

import math
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import NamedTuple

import numpy as np
from benchmarks.harness import NMT, in_turn, run, words_of
from benchmarks.machine import CORES
from toy_training import metrics

from nmt.config.model_config import TransformerConfig
from nmt.config.presets import preset_values
from nmt.config.recipes import resolve_recipe
from nmt.data.batches import LengthSums
from nmt.data.folder import DataFolder
from nmt.models.flops import training_flops

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Marian has threads of its own, so BLAS must not start more."""

_NEVER = 1_000_000_000
_FEWEST_UPDATES = 5  # that are timed
_WINDOW = re.compile(r"Cost [-\d.naif]+ \* ([\d,]+) .* Time ([\d.]+)s")
"""Finds the target words, eos included, and the seconds of a line of Marian's log."""


@dataclass(frozen=True)
class Job:
    """The data, the model and the batches of a training."""

    data: Path
    preset: str
    batch_tokens: int
    device: str = "cpu"

    @property
    def config(self) -> TransformerConfig:
        values = [(self.preset, preset_values(self.preset))]
        config = resolve_recipe(self.preset, "transformer", values).model
        assert isinstance(config, TransformerConfig)
        return config


class Measurement(NamedTuple):
    """The speed and memory of a training."""

    tokens_per_second: float  # of both sides, eos included, after the warm-up
    peak_bytes: int  # resident memory of the process, and of those that it starts, at its highest
    nll: float = math.nan  # the mean of the last updates, if it is known


Contender = Callable[[int, int], Measurement]
"""Takes the numbers of updates of warm-up, which are not timed, and of timed updates."""


def train_words(
    job: Job, out: Path, precision: str, updates: int, settings: Mapping[str, object]
) -> list[str]:
    """Return the arguments of `nmt` that train a model; settings are values of its recipe."""
    options = {
        "--out": out,
        "--model": job.preset,
        "--precision": precision,
        "--device": job.device,
        "--batch-tokens": job.batch_tokens,
        "--max-updates": updates,
    }
    assignments = [f"--set={key}={value}" for key, value in settings.items()]
    return ["train", str(job.data), "--quiet", *words_of(options), *assignments]


def nmt(
    job: Job, precision: str, folder: Path, *, processes: str = "auto", **settings: object
) -> Contender:
    """Return `nmt train`, with its run folders in `folder`."""

    def train(warmup: int, updates: int) -> Measurement:
        out = Path(mkdtemp(dir=folder)) / "run"
        values = {"log_every": warmup, "validate_every": _NEVER, "save_every": _NEVER, **settings}
        words = train_words(job, out, precision, warmup + updates, values)
        done = run([*NMT, *words, "--processes", processes], with_children=True)
        windows = metrics(out, "train")
        if job.device == "cuda":  # where compiling for another length takes seconds, once
            speed = median(one["tokens_per_second"] for one in windows[1:])
            return Measurement(speed, done.peak_bytes, windows[-1]["nll"])
        seconds = [now["seconds"] - before["seconds"] for before, now in pairwise(windows)]
        tokens = sum(w["tokens_per_second"] * s for w, s in zip(windows[1:], seconds, strict=True))
        return Measurement(tokens / sum(seconds), done.peak_bytes)

    return train


def marian(job: Job, folder: Path) -> Contender:
    """Return Marian's (pymarian's) synchronous training in fp32, one thread a core.

    It reads the text that `nmt prepare` has kept, with the same SentencePiece model.
    """

    def train(warmup: int, updates: int) -> Measurement:
        speed_only = ("--no-reload", "--overwrite", "--learn-rate", "0.0001", "--disp-freq", "1u")
        command = marian_command(job, folder, folder / "model.npz", warmup + updates, *speed_only)
        done = run(command, ONE_THREAD)
        windows = [match.groups() for match in _WINDOW.finditer(done.stderr)][warmup:]
        words = sum(int(words.replace(",", "")) for words, _ in windows)
        seconds = sum(float(seconds) for _, seconds in windows)
        return Measurement(words * sides(job) / seconds, done.peak_bytes)

    return train


def sides(job: Job) -> float:
    """Return the tokens of both sides for each target token, eos included. Marian counts these."""
    counts = DataFolder.open(job.data).info.train
    return 1 + (counts.src.tokens + counts.pairs) / (counts.tgt.tokens + counts.pairs)


def marian_command(job: Job, folder: Path, model: Path, updates: int, *options: str) -> list[str]:
    """Return the command that trains a model, and write its text and `vocab.spm` into `folder`."""
    vocabulary = folder / "vocab.spm"  # Marian knows it by its ending
    if not vocabulary.exists():
        _write_text(job, folder, vocabulary)
    config, text = job.config, folder / "train"
    values = {
        "--type": "transformer",
        "--model": model,
        "--tempdir": folder,
        "--dim-emb": config.d_model,
        "--transformer-dim-ffn": config.d_ff,
        "--transformer-heads": config.num_heads,
        "--enc-depth": config.num_encoder_layers,
        "--dec-depth": config.num_decoder_layers,
        "--max-length": 1000,
        "--transformer-dropout": config.dropout,
        "--label-smoothing": 0.1,
        "--clip-norm": 0,
        "--optimizer-delay": 1,
        "--mini-batch-words": job.batch_tokens,
        "--maxi-batch": 1000,
        "--cpu-threads": CORES,
        "--seed": 1,
        "--after": f"{updates}u",
    }
    command = [sys.executable, "-m", "pymarian", "train", *words_of(values)]
    command += ["--train-sets", f"{text}.src", f"{text}.tgt"]
    command += ["--vocabs", str(vocabulary), str(vocabulary)]
    command += ["--optimizer-params", "0.9", "0.98", "1e-09"]
    command += ["--tied-embeddings-all", "--output-omit-bias", "--sync-sgd"]
    return [*command, "--mini-batch-round-up=false", *options]


def _write_text(job: Job, folder: Path, vocabulary: Path) -> None:
    """Write the cleaned training pairs, and then the vocabulary."""
    folder.mkdir(exist_ok=True)
    data = DataFolder.open(job.data)
    rows = data.train.rows(np.arange(len(data.train)))
    sides = zip(("src", "tgt"), rows, (data.src_vocabulary, data.tgt_vocabulary), strict=True)
    for name, side, pieces in sides:
        ids = [part.tolist() for part in np.split(side.ids, np.cumsum(side.lengths)[:-1])]
        text = "".join(f"{line}\n" for line in pieces.decode(ids))
        (folder / f"train.{name}").write_text(text, encoding="utf-8")
    shutil.copy(job.data / data.info.vocabulary.files[0].name, vocabulary)


def flops_per_token(job: Job) -> float:
    """Return the FLOPs of forward and backward pass by source or target token of the data."""
    data = DataFolder.open(job.data)
    sums = LengthSums.of_pairs(*data.train.lengths(np.arange(len(data.train))))
    flops = training_flops("transformer", job.config, len(data.tgt_vocabulary), sums)
    return flops / (sums.src + sums.tgt)


def update_tokens(data: DataFolder, batch_tokens: int) -> float:
    """Return the tokens of an update on both sides; batch_tokens are those of the longer side."""
    counts = data.info.train
    sides = [side.tokens + counts.pairs for side in (counts.src, counts.tgt)]
    return batch_tokens * sum(sides) / max(sides)


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
    measured = {}
    for name, train in systems.items():
        a_second = train(1, 2).tokens_per_second / tokens[name]
        measured[name] = partial(train, warmup, max(_FEWEST_UPDATES, round(seconds * a_second)))
    return in_turn(measured, rounds)
