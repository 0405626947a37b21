"""Systems whose translation is timed, as commands and as loops, and the model that they are given.

A loop is `translation_process`: a system's translator after loading and warming up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from benchmarks import corpora, harness
from benchmarks.harness import NMT, run, setting
from benchmarks.machine import CORES, has_bf16
from benchmarks.marian import ONE_THREAD

from nmt.interchange.ctranslate2_manifest import is_export
from nmt.models.model_file import ModelCard, find_model, load_model

BEAM_SIZE = 4
ALPHA = 0.6
"""Of the length penalty length^ALPHA, the form that all systems have."""

_WARMUP_LINES = 32 * CORES
_LINES = (16, 32, 64)  # of a batch


@dataclass(frozen=True)
class Contender:
    """A system, in a precision and with a beam size."""

    system: str
    precision: str
    beam_size: int
    loop: str
    """The name of its function in `translation_process`."""
    settings: Mapping[str, object]
    """What that function takes besides the size of a batch."""
    command: Callable[[int], Sequence[str | Path]] | None = None
    """The command for a size of a batch, without files; None: the loop without warming up."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of its environment."""
    batches: Sequence[int] = ()
    """Batch sizes to choose the fastest from. Empty: the system has its own."""
    unit: str = ""
    """The unit of the sizes."""

    @property
    def search(self) -> str:
        """The kind of search."""
        return f"beam {self.beam_size}" if self.beam_size > 1 else "greedy"

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.system}, {self.precision}, {self.search}"

    def time_command(self, source: Path, output: Path, batch: int = 0) -> float:
        """Return the wall time of the command, from the process's start to its end."""
        if self.command is None:
            return run(self._process(source, output, batch, warmup=0), self.variables).seconds
        files = ("--input", source, "--output", output)
        return run([*self.command(batch), *files], self.variables).seconds

    def time_loop(self, source: Path, output: Path, batch: int = 0) -> float:
        """Return the seconds of translating only."""
        process = self._process(source, output, batch, warmup=_WARMUP_LINES)
        return float(run(process, self.variables).stdout)

    def _process(self, source: Path, output: Path, batch: int, *, warmup: int) -> list[str | Path]:
        settings = {**self.settings, **({"batch": batch} if self.batches else {})}
        module = ["-m", "benchmarks.translation_process", self.loop]
        return [sys.executable, *module, source, output, str(warmup), json.dumps(settings)]


def nmt(model: Path, precision: str, beam_size: int, *, device: str = "cpu") -> Contender:
    """Return `nmt translate` in a precision; an export has its own."""
    exported = is_export(model)
    search: list[str | Path] = ["--beam-size", str(beam_size), "--length-penalty", str(ALPHA)]
    search += ["--length-penalty-form", "power"]
    search += [] if exported else ["--precision", precision]
    settings = {
        "model": str(model),
        "precision": "auto" if exported else precision,
        "beam_size": beam_size,
        "alpha": ALPHA,
        "device": device,
    }
    return Contender(
        "nmt by ctranslate2" if exported else "nmt",
        precision,
        beam_size,
        "nmt",
        settings,
        command=lambda _: [*NMT, "translate", model, "--device", device, "--quiet", *search],
    )


def ctranslate2(
    model: Path,
    vocabulary: Path,
    *,
    precision: str,
    beam_size: int,
    device: str = "cpu",
) -> Contender:
    """Return CTranslate2: as many translators of one thread as there are cores, or one on a GPU."""
    settings = {
        "model": str(model),
        "vocabulary": str(vocabulary),
        "beam_size": beam_size,
        "alpha": ALPHA,
        "threads": CORES,
        "device": device,
    }
    return Contender(
        "CTranslate2",
        precision,
        beam_size,
        "ctranslate2",
        settings,
        batches=(512, 1024, 2048, 4096) if device == "cpu" else (4_096, 16_384),
        unit="tokens",
    )


def marian(model: Path, vocabulary: Path, *, beam_size: int) -> Contender:
    """Return Marian in fp32 with a thread a core, each with its own sentences.

    A translation has at most three times as many tokens as its source.
    """
    arguments = [
        *("--models", str(model), "--vocabs", str(vocabulary), str(vocabulary)),
        *("--beam-size", str(beam_size), "--normalize", str(ALPHA)),
        *("--maxi-batch", "1000", "--maxi-batch-sort", "src"),
        *("--max-length", "1000", "--cpu-threads", str(CORES)),
        *("--quiet", "--quiet-translation"),
    ]
    decode = [sys.executable, "-m", "pymarian", "decode", *arguments]
    return Contender(
        "Marian",
        "fp32",
        beam_size,
        "marian",
        {"arguments": arguments},
        command=lambda batch: [*decode, "--mini-batch", str(batch)],
        variables=ONE_THREAD,
        batches=_LINES,
        unit="lines",
    )


def fastest_batch(system: Contender, text: Path, outputs: Iterator[Path]) -> int:
    """Return the batch size with which a system's loop is fastest; 0 if it has its own."""
    seconds = {batch: system.time_loop(text, next(outputs), batch) for batch in system.batches}
    return min(seconds, key=seconds.__getitem__, default=0)


# Updates, target tokens of each, and settings that soon give outputs as long as captions.
_RECIPES = {
    "small": (600, 2_000, ("warmup_updates=300", "learning_rate=1e-3")),
    "base": (200, 1_500, ("warmup_updates=100", "learning_rate=5e-4")),
}
_OF_MARIAN = ("positions=sinusoidal_halves", "first_input=zeros", "norm_epsilon=1e-6")
"""Settings by which a model can also be one of Marian."""


def model_of(size: str, folder: Path) -> Path:
    """Return the model file that NMT_BENCH_MODEL_SMALL or _BASE names, or train in `folder`."""
    if given := setting(f"MODEL_{size.upper()}", ""):
        return find_model(Path(given))
    updates, batch_tokens, settings = _RECIPES[size]
    data, out = corpora.multi30k(folder / "data"), folder / "run"
    harness.nmt(
        *("train", data, "--out", out, "--model", f"transformer_{size}", "--quiet"),
        *("--precision", "bf16" if has_bf16() else "fp32", "--device", "cpu"),
        *("--max-updates", str(updates), "--batch-tokens", str(batch_tokens)),
        *(f"--set={one}" for one in (*settings, *_OF_MARIAN, "schedule=linear")),
        f"--set=validate_every={updates}",
    )
    return find_model(out)


def card_for_peers(path: Path) -> ModelCard:
    """Return what a model file says of its model, if peers support that."""
    card = load_model(path)[1]
    if card.src_vocabulary.moses or card.src_vocabulary.model != card.tgt_vocabulary.model:
        pytest.skip(f"{path}: peers get models with one vocabulary, without Moses' preprocessing")
    return card
