"""Run the Makefile of an example on made-up text, as it is or with kills on the way."""

from __future__ import annotations

import contextlib
import gzip
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from toy_training import ENGLISH, GERMAN, environment, pairs
from warm_python import warm_python

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY = (
    "--set d_model=32 --set d_ff=64 --set num_encoder_layers=1 --set num_decoder_layers=1 "
    "--set batch_tokens=200 --set threads=1 --set matmul=torch --precision fp32 --quiet"
)
"""TRAIN_OPTIONS of a tiny model."""

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")


def write_corpus(prefix: Path, count: int, seed: int) -> None:
    """Write pairs of number words as PREFIX.en.gz and PREFIX.de.gz, each number once at least."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    text = [*zip(ENGLISH, GERMAN, strict=True), *pairs(count, seed=seed)]
    for lang, side in zip(("en", "de"), zip(*text, strict=True), strict=True):
        with gzip.open(f"{prefix}.{lang}.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in side)


def make_command(example: str, *arguments: str, python: str | None = None) -> list[str]:
    """Return the command that makes an example with a Python's nmt, by default a warm one's."""
    python = shlex.quote(python or warm_python())
    tools = [f"NMT={python} -m nmt", f"PYTHON={python}"]
    return ["make", "-C", str(EXAMPLES / example), *tools, *arguments]


def make(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Make an example."""
    command = make_command(example, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


def make_with_kills(example: str, limits: Sequence[float], *arguments: str) -> int:
    """Make an example, and kill it with all its processes after each limit, in seconds.

    Afterwards it runs to its end. Return how many times it was killed.
    """
    kills = 0
    for limit in limits:
        process = subprocess.Popen(
            make_command(example, *arguments, python=sys.executable),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit)
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    done = make(example, *arguments)
    assert done.returncode == 0, done.stderr
    return kills
