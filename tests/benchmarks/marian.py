"""Training by Marian (pymarian), with the same size, text, vocabulary and batches."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
from benchmarks.harness import run
from benchmarks.machine import CORES
from benchmarks.training import Contender, Job, Measurement, config_of

from nmt.data.folder import DataFolder

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Marian has threads of its own, so BLAS must not start more."""

_WINDOW = re.compile(r"Cost [-\d.naif]+ \* ([\d,]+) .* Time ([\d.]+)s")
"""Finds the target words, eos included, and the seconds of a line of its log."""


def marian(job: Job, folder: Path) -> Contender:
    """Return Marian's synchronous training in fp32, one thread a core.

    It reads the text that `nmt prepare` has kept, with the same SentencePiece model.
    """

    def train(warmup: int, updates: int) -> Measurement:
        command = _command(job, folder, warmup + updates)
        done = run(command, ONE_THREAD)
        windows = [match.groups() for match in _WINDOW.finditer(done.stderr)][warmup:]
        words = sum(int(words.replace(",", "")) for words, _ in windows)
        # Marian counts only target words, eos included.
        counts = DataFolder.open(job.data).info.train
        ratio = (counts.src.tokens + counts.pairs) / (counts.tgt.tokens + counts.pairs)
        seconds = sum(float(seconds) for _, seconds in windows)
        return Measurement(words * (1 + ratio) / seconds, done.peak_bytes)

    return train


def _command(job: Job, folder: Path, updates: int) -> list[str]:
    vocabulary = folder / "vocab.spm"  # Marian knows it by its ending
    if not vocabulary.exists():
        _write_text(job, folder, vocabulary)
    config, text = config_of(job.preset), folder / "train"
    return [
        *(sys.executable, "-m", "pymarian", "train"),
        *("--type", "transformer", "--model", str(folder / "model.npz")),
        *("--train-sets", f"{text}.src", f"{text}.tgt"),
        *("--vocabs", str(vocabulary), str(vocabulary)),
        *("--tempdir", str(folder)),
        *("--dim-emb", str(config.d_model), "--transformer-dim-ffn", str(config.d_ff)),
        *("--transformer-heads", str(config.num_heads)),
        *("--enc-depth", str(config.num_encoder_layers)),
        *("--dec-depth", str(config.num_decoder_layers)),
        *("--tied-embeddings-all", "--output-omit-bias", "--max-length", "1000"),
        *("--transformer-dropout", str(config.dropout), "--label-smoothing", "0.1"),
        *("--optimizer-params", "0.9", "0.98", "1e-09"),
        *("--clip-norm", "0", "--sync-sgd", "--optimizer-delay", "1"),
        *("--mini-batch-words", str(job.batch_tokens), "--mini-batch-round-up=false"),
        *("--maxi-batch", "1000", "--cpu-threads", str(CORES), "--seed", "1"),
        *("--no-reload", "--overwrite", "--learn-rate", "0.0001", "--disp-freq", "1u"),
        *("--after", f"{updates}u"),
    ]


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
