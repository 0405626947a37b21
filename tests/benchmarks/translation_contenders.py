"""Systems whose translation is timed, as commands and as loops in their own processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import corpora
from benchmarks.contenders import environment
from benchmarks.machine import CORES
from benchmarks.marian import ONE_THREAD
from benchmarks.marian_weights import MAX_LENGTH

ALPHA = 0.6
"""Of the length penalty length^ALPHA, the form that all systems have."""

_WARMUP_LINES = 32 * CORES

Arguments = Callable[[Path, Path, int], list[str]]
"""Of the input, the output and the size of a batch: a command line."""


@dataclass(frozen=True)
class Contender:
    """A system, in a precision and with a beam size."""

    system: str
    precision: str
    beam_size: int
    command: Arguments
    """Translates a file."""
    loop: Arguments
    """The same after loading and warming up. It prints the seconds of `translation_process`."""
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

    def time_command(self, source: Path, output: Path, batch: int) -> float:
        """Return the wall time of the command, from the process's start to its end."""
        command = self.command(source, output, batch)
        began = time.monotonic()
        _run(command)
        return time.monotonic() - began

    def time_loop(self, source: Path, output: Path, batch: int) -> float:
        """Return the seconds of translating only."""
        return float(json.loads(_run(self.loop(source, output, batch)))["seconds"])


def nmt(
    model: Path,
    precision: str,
    beam_size: int,
    engine: str = "torch",
    shortlist: Path | None = None,
) -> Contender:
    """Return `nmt translate`, by the engine ctranslate2 if the model is an export."""
    search = ["--beam-size", str(beam_size), "--length-penalty", str(ALPHA)]
    search += ["--length-penalty-form", "power"]
    # An export has its own.
    search += ["--precision", precision] if engine == "torch" else []
    search += ["--shortlist", str(shortlist)] if shortlist else []

    def command(source: Path, output: Path, _: int) -> list[str]:
        files = ["--input", str(source), "--output", str(output), "--device", "cpu", "--quiet"]
        return [sys.executable, "-m", "nmt", "translate", str(model), *files, *search]

    def loop(source: Path, output: Path, _: int) -> list[str]:
        settings = [str(model), precision, str(beam_size), str(ALPHA), engine]
        settings += [str(shortlist)] if shortlist else []
        return _process(sys.executable, "nmt_process", source, output, _WARMUP_LINES, settings)

    name = "nmt" if engine == "torch" else f"nmt by {engine}"
    name = f"{name} with a shortlist" if shortlist else name
    return Contender(name, precision, beam_size, command, loop)


def export_shortlist(vocabulary: Path, folder: Path) -> Path:
    """Write the shortlist of Multi30k's training text."""
    data, out = corpora.multi30k_by(vocabulary, folder / "data-of-shortlist"), folder / "shortlist"
    command = [sys.executable, "-m", "nmt", "export", "shortlist", str(data), str(out), "--quiet"]
    subprocess.run(command, check=True)
    return out


def ctranslate2(
    model: Path, vocabulary: Path, python: str, precision: str, beam_size: int
) -> Contender:
    """Return CTranslate2 with as many translators of one thread as there are cores."""
    loop = _loop_of("ctranslate2_process", python, model, vocabulary, beam_size)
    batches = (512, 1024, 2048, 4096)
    return Contender(
        "CTranslate2", precision, beam_size, loop(0), loop(_WARMUP_LINES), batches, "tokens"
    )


def marian(model: Path, vocabulary: Path, python: str, beam_size: int) -> Contender:
    """Return Marian in fp32 with a thread a core, each with its own sentences.

    Its int8 is only for its older type of Transformer, which cannot be this model: see
    `marian_weights`. A translation has at most three times as many tokens as its source.
    """

    def arguments(batch: int) -> list[str]:
        return [
            *("--models", str(model), "--vocabs", str(vocabulary), str(vocabulary)),
            *("--beam-size", str(beam_size), "--normalize", str(ALPHA)),
            *("--mini-batch", str(batch), "--maxi-batch", "1000", "--maxi-batch-sort", "src"),
            *("--max-length", str(MAX_LENGTH), "--cpu-threads", str(CORES)),
            *("--quiet", "--quiet-translation"),
        ]

    def command(source: Path, output: Path, batch: int) -> list[str]:
        files = ["--input", str(source), "--output", str(output)]
        return [*_with(ONE_THREAD, python), "-m", "pymarian", "decode", *arguments(batch), *files]

    def loop(source: Path, output: Path, batch: int) -> list[str]:
        settings = arguments(batch)
        process = _process(python, "marian_process", source, output, _WARMUP_LINES, settings)
        return [*_with(ONE_THREAD, process[0]), *process[1:]]

    return Contender("Marian", "fp32", beam_size, command, loop, (16, 32, 64), "lines")


def transformers(folder: Path, vocabulary: Path, python: str, beam_size: int) -> Contender:
    """Return transformers' `generate` in fp32, on all cores together."""
    loop = _loop_of("transformers_process", python, folder, vocabulary, beam_size)
    batches = (16, 32, 64)
    return Contender(
        "transformers", "fp32", beam_size, loop(0), loop(_WARMUP_LINES), batches, "lines"
    )


def export_to_ctranslate2(model: Path, precision: str, folder: Path) -> Path:
    """Return a new folder in CTranslate2's format."""
    out = folder / f"ctranslate2-{precision}"
    command = [sys.executable, "-m", "nmt", "export", "ctranslate2", str(model), str(out)]
    if precision != "fp32":
        command += ["--quantization", precision]
    subprocess.run(command, check=True)
    return out


def _loop_of(
    module: str, python: str, model: Path, vocabulary: Path, beam_size: int
) -> Callable[[int], Arguments]:
    """Return the command lines of a module, by the lines of warm-up."""
    settings = [str(model), str(vocabulary), str(CORES), str(beam_size), str(ALPHA)]
    return lambda warmup: (
        lambda source, output, batch: _process(
            python, module, source, output, warmup, [*settings, str(batch)]
        )
    )


def _process(
    python: str, module: str, source: Path, output: Path, warmup: int, settings: Sequence[str]
) -> list[str]:
    files = [str(source), str(output)]
    return [python, "-m", f"benchmarks.{module}", *files, str(warmup), *settings]


def _with(variables: dict[str, str], program: str) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in variables.items()), program]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
