"""Systems whose translation is timed, each in its own process, and the model that they are given.

The processes run `translation_process.py`.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks import corpora, harness
from benchmarks.harness import run, setting, words_of
from benchmarks.machine import CORES, has_bf16
from benchmarks.training import ONE_THREAD, Job, train_words

from nmt.interchange.ctranslate2_manifest import is_export
from nmt.models.model_file import ModelCard, find_model, load_model

BEAM_SIZE = 4
ALPHA = 0.6
"""Of the length penalty length^ALPHA, the form that all systems have."""

_WARMUP_LINES = 32 * CORES


@dataclass(frozen=True)
class Contender:
    """A system, in a precision and with a beam size."""

    system: str
    precision: str
    beam_size: int
    settings: dict[str, object]
    """What its function in `translation_process` takes besides the size of a batch."""
    batches: Sequence[int] = ()
    """Batch sizes to choose the fastest from. Empty: the system has its own."""

    @property
    def name(self) -> str:
        """The name in tables."""
        search = f"beam {self.beam_size}" if self.beam_size > 1 else "greedy"
        return f"{self.system}, {self.precision}, {search}"

    def seconds(
        self, source: Path, output: Path, batch: int = 0, *, warmup_lines: int = _WARMUP_LINES
    ) -> float:
        """Return the time from text to text, after loading and warming up."""
        settings = self.settings | ({"batch": batch} if self.batches else {})
        function = self.system.split()[0].lower()
        module = ["-m", "benchmarks.translation_process", function]
        files = [str(source), str(output), str(warmup_lines), json.dumps(settings)]
        variables = ONE_THREAD if function == "marian" else {}
        return float(run([sys.executable, *module, *files], variables).stdout)

    def fastest_batch(self, text: Path, folder: Path) -> int:
        """Return the batch size with which it is fastest; 0 if it has its own."""
        times = {size: self.seconds(text, folder / "tried", size) for size in self.batches}
        return min(times, key=times.__getitem__, default=0)


def nmt(model: Path, precision: str, beam_size: int, *, device: str = "cpu") -> Contender:
    """Return `nmt translate` in a precision; an export has its own."""
    exported = is_export(model)
    settings: dict[str, object] = {
        "model": str(model),
        "precision": "auto" if exported else precision,
        "beam_size": beam_size,
        "alpha": ALPHA,
        "device": device,
    }
    name = "nmt by CTranslate2" if exported else "nmt"
    return Contender(name, precision, beam_size, settings)


def ctranslate2(
    model: Path, vocabulary: Path, precision: str, beam_size: int, *, device: str = "cpu"
) -> Contender:
    """Return CTranslate2: as many translators of one thread as there are cores, or one on a GPU."""
    settings: dict[str, object] = {
        "model": str(model),
        "vocabulary": str(vocabulary),
        "beam_size": beam_size,
        "alpha": ALPHA,
        "threads": CORES,
        "device": device,
    }
    batches = (512, 1024, 2048, 4096) if device == "cpu" else (4_096, 16_384)  # tokens
    return Contender("CTranslate2", precision, beam_size, settings, batches)


def marian(model: Path, vocabulary: Path, beam_size: int) -> Contender:
    """Return Marian in fp32 with a thread a core, each with its own sentences.

    A translation has at most three times as many tokens as its source.
    """
    values = {
        "--models": model,
        "--beam-size": beam_size,
        "--normalize": ALPHA,
        "--maxi-batch": 1000,
        "--maxi-batch-sort": "src",
        "--max-length": 1000,
        "--cpu-threads": CORES,
    }
    arguments = [*words_of(values), "--vocabs", str(vocabulary), str(vocabulary)]
    arguments += ["--quiet", "--quiet-translation"]
    return Contender("Marian", "fp32", beam_size, {"arguments": arguments}, (16, 32, 64))  # lines


# Updates, target tokens of each, and settings that soon give outputs as long as captions.
_RECIPES = {
    "small": (600, 2_000, {"warmup_updates": 300, "learning_rate": 1e-3}),
    "base": (200, 1_500, {"warmup_updates": 100, "learning_rate": 5e-4}),
}
_OF_MARIAN = {"positions": "sinusoidal_halves", "first_input": "zeros", "norm_epsilon": 1e-6}
"""Settings by which a model can also be one of Marian."""


def model_of(size: str, folder: Path) -> Path:
    """Return the model file that NMT_BENCH_MODEL_SMALL or _BASE names, or train in `folder`.

    Of any other size there is only the model that is named: without it, the test is skipped.
    """
    if given := setting(f"MODEL_{size.upper()}", ""):
        return find_model(Path(given))
    if size not in _RECIPES:
        pytest.skip(f"needs a model file or a run folder: set NMT_BENCH_MODEL_{size.upper()}")
    updates, batch_tokens, settings = _RECIPES[size]
    job = Job(corpora.multi30k(folder / "data"), f"transformer_{size}", batch_tokens)
    out, precision = folder / "run", "bf16" if has_bf16() else "fp32"
    values = {**settings, **_OF_MARIAN, "schedule": "linear", "validate_every": updates}
    harness.nmt(*train_words(job, out, precision, updates, values))
    return find_model(out)


def card_for_peers(path: Path) -> ModelCard:
    """Return what a model file says of its model, if peers support that."""
    card = load_model(path)[1]
    if card.src_vocabulary.moses or card.src_vocabulary.model != card.tgt_vocabulary.model:
        pytest.skip(f"{path}: peers get models with one vocabulary, without Moses' preprocessing")
    return card
