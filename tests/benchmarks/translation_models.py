"""Models to translate with: given ones, or briefly trained ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import corpora
from benchmarks.machine import has_bf16

from nmt.data.vocabulary import Vocabulary
from nmt.models.model_file import find_model, load_model
from nmt.models.transformer import Transformer

# Updates, target tokens of each, and settings that soon give outputs as long as captions.
_RECIPES = {
    "small": (600, 2_000, ("warmup_updates=300", "learning_rate=1e-3", "schedule=linear")),
    "base": (200, 1_500, ("warmup_updates=100", "learning_rate=5e-4", "schedule=linear")),
}


def model_of(size: str, folder: Path) -> Path:
    """Return the model file that NMT_BENCH_MODEL_SMALL or _BASE names, or train in `folder`."""
    if given := os.environ.get(f"NMT_BENCH_MODEL_{size.upper()}"):
        return find_model(Path(given))
    updates, batch_tokens, settings = _RECIPES[size]
    data, run = corpora.multi30k(folder / "data"), folder / "run"
    arguments = [
        *("train", str(data), "--out", str(run), "--model", f"transformer_{size}", "--quiet"),
        *("--precision", "bf16" if has_bf16() else "fp32", "--device", "cpu"),
        *("--max-updates", str(updates), "--batch-tokens", str(batch_tokens)),
        *(f"--set={setting}" for setting in (*settings, f"validate_every={updates}")),
    ]
    subprocess.run([sys.executable, "-m", "nmt", *arguments], check=True)
    return find_model(run)


def open_for_peers(path: Path) -> tuple[Transformer, Vocabulary]:
    """Return a model and its vocabulary, if peers support it."""
    model, card = load_model(path)
    if not isinstance(model, Transformer) or model.config.tie_embeddings != "all":
        pytest.skip(f"{path}: peers get Transformers whose embeddings are shared three ways")
    if card.src_vocabulary.moses:
        pytest.skip(f"{path}: peers get models without Moses' normalisation and tokenisation")
    return model, card.tgt_vocabulary
