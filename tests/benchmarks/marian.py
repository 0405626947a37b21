"""Training by Marian (pymarian), with the same size, text, vocabulary and batches."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.harness import environment, run
from benchmarks.machine import CORES
from benchmarks.training import Job, Measurement, config_of

from nmt.data.folder import DataFolder

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Marian has threads of its own, so BLAS must not start more."""

_WINDOW = re.compile(r"Cost [-\d.naif]+ \* ([\d,]+) .* Time ([\d.]+)s")


@dataclass(frozen=True)
class Marian:
    """Marian's synchronous training in fp32, one thread a core, of one model.

    It reads the text that `nmt prepare` has kept, with the same SentencePiece model.
    """

    python: str
    """One that can import pymarian."""
    folder: Path
    """Holds everything. An unfinished training continues there."""
    job: Job

    @property
    def vocabulary(self) -> Path:
        """Return the SentencePiece model. Marian knows it by its ending."""
        return self.folder / "vocab.spm"

    def train(self, warmup: int, updates: int) -> Measurement:
        """Time a training, as a contender."""
        options = ["--no-reload", "--overwrite", "--learn-rate", "0.0001", "--disp-freq", "1u"]
        done = run(self._command(*options, "--after", f"{warmup + updates}u"), ONE_THREAD)
        words, seconds = map(sum, zip(*_windows(done.stderr)[warmup:], strict=True))
        # Marian counts only target words, eos included.
        tokens = words * (1 + src_over_tgt(self.job.data))
        return Measurement(tokens / seconds, done.peak_bytes)

    def learn(self, updates: int, every: int, learning_rate: float, warmup: int) -> float:
        """Train until `updates` updates, and keep a checkpoint every `every` updates.

        The schedule is `nmt train`'s: linear warm-up, then the inverse square root. Returns the
        target tokens of an update, eos included.
        """
        log = self.folder / "train.log"
        if not self.checkpoint(updates).exists():
            command = self._command(
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

    def _command(self, *options: str) -> list[str]:
        self._write_text()
        config, text = config_of(self.job.preset), self.folder / "train"
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
            *("--mini-batch-words", str(self.job.batch_tokens), "--mini-batch-round-up=false"),
            *("--maxi-batch", "1000", "--cpu-threads", str(CORES), "--seed", "1"),
            *options,
        ]

    def _write_text(self) -> None:
        """Write the cleaned training pairs, and then the vocabulary."""
        if self.vocabulary.exists():
            return
        self.folder.mkdir(exist_ok=True)
        data = DataFolder.open(self.job.data)
        rows = data.train.rows(np.arange(len(data.train)))
        vocabularies = data.src_vocabulary, data.tgt_vocabulary
        for name, side, vocabulary in zip(("src", "tgt"), rows, vocabularies, strict=True):
            ids = [part.tolist() for part in np.split(side.ids, np.cumsum(side.lengths)[:-1])]
            text = "".join(f"{line}\n" for line in vocabulary.decode(ids))
            (self.folder / f"train.{name}").write_text(text, encoding="utf-8")
        shutil.copy(self.job.data / data.info.vocabulary.files[0].name, self.vocabulary)


def src_over_tgt(data: Path) -> float:
    """Return the number of source tokens for each target token of a data folder, eos included."""
    counts = DataFolder.open(data).info.train
    return (counts.src.tokens + counts.pairs) / (counts.tgt.tokens + counts.pairs)


def _windows(log: str) -> list[tuple[int, float]]:
    """Return the target words, eos included, and the seconds of each window."""
    found = [match.groups() for match in _WINDOW.finditer(log)]
    return [(int(words.replace(",", "")), float(seconds)) for words, seconds in found]
