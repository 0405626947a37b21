"""Marian, by its Python package pymarian, as the peer: same size, text, vocabulary and batches."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from benchmarks import peak_memory
from benchmarks.contenders import Contender, Job, Measurement, environment
from benchmarks.corpora import write_training_text
from benchmarks.machine import CORES

from nmt.data.folder import DataFolder
from nmt.model_config import TransformerConfig

_LINE = re.compile(r"Cost [-\d.naif]+ \* ([\d,]+) .* Time ([\d.]+)s")


def marian(job: Job, config: TransformerConfig, python: str, folder: Path) -> Contender:
    """Return Marian's synchronous training in fp32, one thread a core.

    Its text is what `nmt prepare` has kept, under the same SentencePiece model.
    """
    data = DataFolder.open(job.data)
    text = write_training_text(data, folder / "train")
    vocabulary = folder / "vocab.spm"  # by this ending Marian knows what it is
    shutil.copy(job.data / data.info.vocabulary.files[0].name, vocabulary)
    counts = data.info.train
    # Marian's figure counts target words only, eos included.
    both_sides = 1 + (counts.src.tokens + counts.pairs) / (counts.tgt.tokens + counts.pairs)

    def train(warmup: int, updates: int) -> Measurement:
        arguments = [
            *("--type", "transformer", "--model", str(folder / "model.npz"), "--no-reload"),
            *("--train-sets", *map(str, text), "--vocabs", str(vocabulary), str(vocabulary)),
            *("--tempdir", str(folder), "--overwrite"),
            *("--dim-emb", str(config.d_model), "--transformer-dim-ffn", str(config.d_ff)),
            *("--transformer-heads", str(config.num_heads)),
            *("--enc-depth", str(config.num_encoder_layers)),
            *("--dec-depth", str(config.num_decoder_layers)),
            *("--tied-embeddings-all", "--output-omit-bias", "--max-length", "1000"),
            *("--transformer-dropout", str(config.dropout), "--label-smoothing", "0.1"),
            *("--optimizer-params", "0.9", "0.98", "1e-09", "--learn-rate", "0.0001"),
            *("--clip-norm", "0", "--sync-sgd", "--optimizer-delay", "1"),
            *("--mini-batch-words", str(job.batch_tokens), "--mini-batch-round-up=false"),
            *("--maxi-batch", "1000", "--cpu-threads", str(CORES), "--seed", "1"),
            *("--after", f"{warmup + updates}u", "--disp-freq", "1u"),
        ]
        one_each = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # threads of a thread
        done = peak_memory.run(
            [python, "-m", "pymarian", "train", *arguments], environment() | one_each
        )
        timed = [match.groups() for match in _LINE.finditer(done.stderr)][warmup:]
        words = sum(int(count.replace(",", "")) for count, _ in timed)
        seconds = sum(float(taken) for _, taken in timed)
        return Measurement(both_sides * words / seconds, done.peak_bytes)

    return train
