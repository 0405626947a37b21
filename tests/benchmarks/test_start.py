"""How soon commands answer with a warm file cache, beside the libraries that they load, and peers.

All take turns, and tables have medians. Wall clock is what users wait. CPU time, user and system,
of a process and all that it starts is steadier, since other processes hardly change it.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import pytest
import torch
from benchmarks import harness, translation
from benchmarks.machine import describe

from nmt.config.model_config import TransformerConfig
from nmt.models.model_file import ModelCard, find_model, write_model

pytestmark = pytest.mark.benchmark

LINES = 1_000  # that are scored
TRAINED = Path(__file__).parents[1] / "written_before/model.safetensors"
"""A toy model, but it has learnt: what loops is translated twice, and loads more."""
# Two sentences, so that abbreviations are looked up.
LINE = "The cat sees it. Mr. Smith sees a dog.\n"

Cost = tuple[float, float]
"""Seconds of wall clock and of CPU."""


def cost(work: Callable[[], object]) -> Cost:
    """Return what a process costs that is started and ends in `work`."""
    before, began = getrusage(RUSAGE_CHILDREN), time.monotonic()
    work()
    seconds, after = time.monotonic() - began, getrusage(RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def answer(*command: str | Path) -> None:
    """Run a command that is given the line."""
    subprocess.run(
        command,
        env=harness.environment(),
        input=LINE,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )


def test_starts_are_fast(card: ModelCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python files are compiled once, as in an installation.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    model = find_model(Path(harness.setting("MODEL_SMALL", str(TRAINED))))
    names = ("export", "random", "marian", "line", "out", "ref", "hyp")
    export, random, marian, line, out, ref, hyp = (tmp_path / name for name in names)
    line.write_text(LINE)
    words = "the cat sees a small red bird in the old house by the river".split()
    ref.write_text("".join(f"{' '.join(words[n % 9 :])} {n}.\n" for n in range(LINES)))
    hyp.write_text("".join(f"{' '.join(words[n % 7 :])} {n}.\n" for n in range(LINES)))
    typer, pytorch = "python -c 'import typer'", "python -c 'import torch'"
    sacrebleu = "sacrebleu ref -i hyp"
    systems: dict[str, Callable[[], object]] = {
        typer: partial(answer, sys.executable, "-c", "import typer"),
        pytorch: partial(answer, sys.executable, "-c", "import torch"),
        sacrebleu: partial(answer, sys.executable, "-m", "sacrebleu", ref, "-i", hyp),
    }
    yardsticks: dict[str, tuple[str, str]] = {}  # with goals

    def compare(name: str, yardstick: str, goal: str, *arguments: str | Path) -> None:
        systems[name] = partial(answer, *harness.NMT, *arguments)
        yardsticks[name] = yardstick, goal

    translate = "translate", "--quiet"
    compare("`nmt --help`", typer, "3", "--help")
    compare("`nmt models`", typer, "", "models")
    compare("`nmt translate MODEL`, one line", pytorch, "+ 0.5 s", *translate, model)
    compare("`nmt score`, BLEU", sacrebleu, "1.4", "score", ref, hyp, "--metric", "bleu")
    if harness.is_installed("ctranslate2"):
        harness.nmt("export", "ctranslate2", model, export, "--quiet")
        compare("`nmt translate EXPORT`, one line", pytorch, "0.3", *translate, export)
        pieces = export / "sentencepiece.model"
        peer = translation.ctranslate2(export, pieces, precision="fp32", beam_size=4)
        systems["CTranslate2, one line"] = partial(peer.seconds, line, out, 512, warmup_lines=0)
        yardsticks["CTranslate2, one line"] = pytorch, ""
    if harness.is_installed("pymarian"):
        # Few models can be Marian's. Random weights start as others do.
        assert isinstance(card.config, TransformerConfig)
        card = replace(
            card,
            config=replace(
                card.config, positions="sinusoidal_halves", first_input="zeros", norm_epsilon=1e-6
            ),
        )
        torch.manual_seed(1)
        write_model(random, card, dict(card.build().named_parameters()))
        harness.nmt("export", "marian", random, marian, "--quiet")
        peer = translation.marian(marian / "model.npz", marian / "vocab.spm", beam_size=4)
        systems["Marian, one line"] = partial(peer.seconds, line, out, 16, warmup_lines=0)
        yardsticks["Marian, one line"] = pytorch, ""
    runs = harness.in_turn(
        {name: partial(cost, work) for name, work in systems.items()}, harness.rounds(9) + 1
    )
    # The first one warms the cache.
    wall, cpu = (
        {name: median(each[kind] for each in found[1:]) for name, found in runs.items()}
        for kind in (0, 1)
    )

    def beside(seconds: dict[str, float], name: str) -> str:
        yardstick, goal = yardsticks[name]
        if goal.startswith("+"):
            return f"{seconds[name] - seconds[yardstick]:+.2f} s"
        return f"{seconds[name] / seconds[yardstick]:.2f}"

    rows = (
        {
            "command": name,
            "seconds": f"{wall[name]:.2f}",
            "CPU seconds": f"{cpu[name]:.2f}",
            "beside": f"`{yardstick}`",
            "its seconds": f"{wall[yardstick]:.2f}",
            "its CPU seconds": f"{cpu[yardstick]:.2f}",
            "ratio": beside(wall, name),
            "ratio of CPU": beside(cpu, name),
            "goal": goal,
        }
        for name, (yardstick, goal) in yardsticks.items()
    )
    harness.publish(f"{describe()}\n\n{harness.table(rows)}")
