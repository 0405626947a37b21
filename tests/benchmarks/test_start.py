"""How soon commands answer with a warm file cache, beside the libraries that they load.

A command's time is the CPU time, user and system, of its process and of all that it starts: the
fastest of several runs, those of all commands taken in turns. Work of other processes hardly
changes it.

    NMT_BENCH_ROUNDS    runs of each command, 5 by default
    NMT_BENCH_OUT       a file that the table is added to
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from benchmarks.machine import describe
from benchmarks.report import publish, rounds, table

from nmt.models.model_file import ModelCard, write_model

pytestmark = pytest.mark.benchmark

ROUNDS = rounds()
LINES = 1_000  # that are scored
NMT = (sys.executable, "-m", "nmt")
SEARCH = ("--quiet",)
# Python files are compiled once, as in an installation.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def seconds(words: tuple[str | Path, ...], text: bytes) -> float:
    """Return the CPU time of a command that is given text."""
    command = list(map(str, words))
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def test_commands_start_fast(card: ModelCard, tmp_path: Path) -> None:
    model, export, ref, hyp = (tmp_path / name for name in ("model", "export", "ref", "hyp"))
    torch.manual_seed(1)
    write_model(model, card, dict(card.build().named_parameters()))
    words = "the cat sees a small red bird in the old house by the river".split()  # noqa: SIM905
    ref.write_text("".join(f"{' '.join(words[n % 9 :])} {n}.\n" for n in range(LINES)))
    hyp.write_text("".join(f"{' '.join(words[n % 7 :])} {n}.\n" for n in range(LINES)))
    typer, pytorch = "python -c 'import typer'", "python -c 'import torch'"
    sacrebleu = "sacrebleu ref -i hyp"
    commands: dict[str, tuple[str | Path, ...]] = {
        typer: (sys.executable, "-c", "import typer"),
        pytorch: (sys.executable, "-c", "import torch"),
        sacrebleu: (sys.executable, "-m", "sacrebleu", ref, "-i", hyp),
        "nmt --help": (*NMT, "--help"),
        "nmt models": (*NMT, "models"),
        "nmt translate MODEL, one line": (*NMT, "translate", model, *SEARCH),
        "nmt score, BLEU": (*NMT, "score", ref, hyp, "--metric", "bleu"),
    }
    yardsticks = {
        "nmt --help": typer,
        "nmt models": typer,
        "nmt translate MODEL, one line": pytorch,
        "nmt score, BLEU": sacrebleu,
    }
    if find_spec("ctranslate2") is not None:
        subprocess.run([*NMT, "export", "ctranslate2", model, export, "--quiet"], check=True)
        name = "nmt translate EXPORT, one line"
        commands[name], yardsticks[name] = (*NMT, "translate", export, *SEARCH), pytorch
    fastest = dict.fromkeys(commands, float("inf"))
    for _ in range(ROUNDS + 1):  # the first of which warms the cache
        for name, command in commands.items():
            fastest[name] = min(fastest[name], seconds(command, b"the cat\n"))
    rows = [
        (
            name,
            f"{fastest[name]:.2f}",
            yardstick,
            f"{fastest[yardstick]:.2f}",
            f"{fastest[name] / fastest[yardstick]:.2f}",
        )
        for name, yardstick in yardsticks.items()
    ]
    header = ("command", "CPU seconds", "beside", "CPU seconds", "ratio")
    publish(f"{describe()}\n\n{table(header, rows)}")
