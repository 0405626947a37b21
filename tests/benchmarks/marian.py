"""Training by Marian (pymarian), with the same size, text, vocabulary and batches."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes
from benchmarks.contenders import Contender, Job, Measurement, environment
from benchmarks.corpora import write_training_text
from benchmarks.machine import CORES

from nmt.data.folder import DataFolder
from nmt.data.manifest import SplitRecord
from nmt.model_config import TransformerConfig

_LINE = re.compile(r"Cost [-\d.naif]+ \* ([\d,]+) .* Time ([\d.]+)s")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Marian has threads of its own, so BLAS must not start more."""


@dataclass(frozen=True)
class Training:
    """Marian's synchronous training in fp32, one thread a core, of one model.

    It reads the text that `nmt prepare` has kept, with the same SentencePiece model.
    """

    python: str
    """One that can import pymarian."""
    folder: Path
    """Holds everything. An unfinished training continues there."""
    data: Path
    config: TransformerConfig
    batch_tokens: int

    @property
    def vocabulary(self) -> Path:
        """Return the SentencePiece model. Marian knows it by its ending."""
        return self.folder / "vocab.spm"

    def write_text(self) -> None:
        """Write the text, and then the vocabulary."""
        data = DataFolder.open(self.data)
        write_training_text(data, self.folder / "train")
        shutil.copy(self.data / data.info.vocabulary.files[0].name, self.vocabulary)

    def command(self, *options: str) -> list[str]:
        """Return the command, with further options."""
        config, text = self.config, self.folder / "train"
        return [
            *(self.python, "-m", "pymarian", "train"),
            *("--type", "transformer", "--model", str(self.folder / "model.npz")),
            *("--train-sets", f"{text}.src", f"{text}.tgt"),
            *("--vocabs", str(self.vocabulary), str(self.vocabulary)),
            *("--tempdir", str(self.folder)),
            *("--dim-emb", str(config.d_model), "--transformer-dim-ffn", str(config.d_ff)),
            *("--transformer-heads", str(config.num_heads)),
            *("--enc-depth", str(config.num_encoder_layers)),
            *("--dec-depth", str(config.num_decoder_layers)),
            *("--tied-embeddings-all", "--output-omit-bias", "--max-length", "1000"),
            *("--transformer-dropout", str(config.dropout), "--label-smoothing", "0.1"),
            *("--optimizer-params", "0.9", "0.98", "1e-09"),
            *("--clip-norm", "0", "--sync-sgd", "--optimizer-delay", "1"),
            *("--mini-batch-words", str(self.batch_tokens), "--mini-batch-round-up=false"),
            *("--maxi-batch", "1000", "--cpu-threads", str(CORES), "--seed", "1"),
            *options,
        ]

    def learn(self, updates: int, every: int, learning_rate: float, warmup: int) -> float:
        """Train until `updates` updates, and keep a checkpoint every `every` updates.

        The schedule is `nmt train`'s: linear warm-up, then the inverse square root. Returns the
        target tokens of an update, eos included.
        """
        log = self.folder / "train.log"
        if not self.checkpoint(updates).exists():
            command = self.command(
                *("--learn-rate", str(learning_rate), "--lr-warmup", str(warmup)),
                *("--lr-decay-inv-sqrt", str(warmup)),
                *("--after", f"{updates}u", "--save-freq", f"{every}u", "--disp-freq", f"{every}u"),
            )
            with log.open("a", encoding="utf-8") as file:
                subprocess.run(command, check=True, env=environment() | ONE_THREAD, stderr=file)
        windows = _windows(log.read_text(encoding="utf-8"))
        return sum(words for words, _ in windows) / (every * len(windows))

    def checkpoint(self, update: int) -> Path:
        """Return the model after an update."""
        return self.folder / f"model.iter{update}.npz"


def src_over_tgt(counts: SplitRecord) -> float:
    """Return the number of source tokens for each target token, eos included."""
    return (counts.src.tokens + counts.pairs) / (counts.tgt.tokens + counts.pairs)


def _windows(log: str) -> list[tuple[int, float]]:
    """Return the target words, eos included, and the seconds of each window."""
    found = [match.groups() for match in _LINE.finditer(log)]
    return [(int(words.replace(",", "")), float(seconds)) for words, seconds in found]


def marian(job: Job, config: TransformerConfig, python: str, folder: Path) -> Contender:
    """Return the training as a contender in speed."""
    training = Training(python, folder, job.data, config, job.batch_tokens)
    training.write_text()
    counts = DataFolder.open(job.data).info.train
    # Marian counts only target words, eos included.
    both_sides = 1 + src_over_tgt(counts)

    def train(warmup: int, updates: int) -> Measurement:
        done = processes.run(
            training.command(
                *("--no-reload", "--overwrite", "--learn-rate", "0.0001"),
                *("--after", f"{warmup + updates}u", "--disp-freq", "1u"),
            ),
            environment() | ONE_THREAD,
        )
        timed = _windows(done.stderr)[warmup:]
        words, seconds = map(sum, zip(*timed, strict=True))
        return Measurement(both_sides * words / seconds, done.peak_bytes)

    return train
