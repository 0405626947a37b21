"""How soon commands answer with a warm file cache, beside the libraries that they load.

A command's time is the CPU time, user and system, of its process and of all that it starts: the
fastest of several runs, those of all commands taken in turns. Work of other processes hardly
changes it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from benchmarks.harness import NMT, in_turn, nmt, publish, rounds, table
from benchmarks.machine import describe

from nmt.models.model_file import ModelCard, write_model

pytestmark = pytest.mark.benchmark

LINES = 1_000  # that are scored
# Python files are compiled once, as in an installation.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(command: list[str | Path]) -> float:
    """Return the CPU time of a command that is given a line of text."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, env=ENVIRONMENT, input=b"the cat\n", stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_commands_start_fast(card: ModelCard, tmp_path: Path) -> None:
    model, export, ref, hyp = (tmp_path / name for name in ("model", "export", "ref", "hyp"))
    torch.manual_seed(1)
    write_model(model, card, dict(card.build().named_parameters()))
    words = "the cat sees a small red bird in the old house by the river".split()  # noqa: SIM905
    ref.write_text("".join(f"{' '.join(words[n % 9 :])} {n}.\n" for n in range(LINES)))
    hyp.write_text("".join(f"{' '.join(words[n % 7 :])} {n}.\n" for n in range(LINES)))
    typer, pytorch = "python -c 'import typer'", "python -c 'import torch'"
    sacrebleu = "sacrebleu ref -i hyp"
    commands: dict[str, list[str | Path]] = {
        typer: [sys.executable, "-c", "import typer"],
        pytorch: [sys.executable, "-c", "import torch"],
        sacrebleu: [sys.executable, "-m", "sacrebleu", ref, "-i", hyp],
    }
    yardsticks = {}

    def compare(name: str, yardstick: str, *arguments: str | Path) -> None:
        commands[name], yardsticks[name] = [*NMT, *arguments], yardstick

    compare("nmt --help", typer, "--help")
    compare("nmt models", typer, "models")
    compare("nmt translate MODEL, one line", pytorch, "translate", model, "--quiet")
    compare("nmt score, BLEU", sacrebleu, "score", ref, hyp, "--metric", "bleu")
    if find_spec("ctranslate2") is not None:
        nmt("export", "ctranslate2", model, export, "--quiet")
        compare("nmt translate EXPORT, one line", pytorch, "translate", export, "--quiet")
    runs = in_turn({name: partial(cpu_seconds, of) for name, of in commands.items()}, rounds() + 1)
    fastest = {name: min(found[1:]) for name, found in runs.items()}  # the first warms the cache
    rows = (
        {
            "command": name,
            "CPU seconds": f"{fastest[name]:.2f}",
            "beside": yardstick,
            "its CPU seconds": f"{fastest[yardstick]:.2f}",
            "ratio": f"{fastest[name] / fastest[yardstick]:.2f}",
        }
        for name, yardstick in yardsticks.items()
    )
    publish(f"{describe()}\n\n{table(rows)}")
