"""`nmt prepare` beside SentencePiece alone, on a million pairs or more of real text.

NMT_BENCH_PAIRS     1,000,000 by default; beyond that, a word of another sentence is added, so that
                    none is a duplicate
NMT_BENCH_ROUNDS    measurements of each system, 3 by default
NMT_BENCH_OUT       a file that the table is added to
"""

from __future__ import annotations

import lzma
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from benchmarks import processes
from benchmarks.corpora import real_text
from benchmarks.machine import describe
from benchmarks.report import in_turn, publish, rounds, spread, table

from nmt.data.epochs import Epochs, padding, plan_pool
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import Vocabulary

pytestmark = pytest.mark.benchmark

PAIRS = int(os.environ.get("NMT_BENCH_PAIRS", "1000000"))
ROUNDS = rounds(3)
VOCAB_SIZE = 32_000
BATCH_TOKENS = 25_000
_BATCH_LINES = 4096


def write_text(source: Path, path: Path) -> None:
    """Write PAIRS lines of real text, the later ones varied."""
    with lzma.open(source, "rt", newline="\n") as file:
        lines = file.read().split("\n")[:-1]
    with path.open("w", newline="\n") as out:
        for number in range(PAIRS):
            turn, at = divmod(number, len(lines))
            line = lines[at]
            if turn:
                other = lines[(at + 7919 * turn) % len(lines)].split(" ")
                line = f"{line} {turn} {other[turn % len(other)]}"
            out.write(f"{line}\n")


def sentencepiece_seconds(text: Path, vocabulary: Vocabulary) -> float:
    """Encode both sides with SentencePiece's own threads, in batches, and keep nothing."""
    threads = len(os.sched_getaffinity(0))
    began = time.monotonic()
    for lang in ("en", "fr"):
        with (text / f"train.{lang}").open(newline="\n") as file:
            while lines := [line.rstrip("\n") for line in islice(file, _BATCH_LINES)]:
                vocabulary.encode(lines, threads=threads)
    return time.monotonic() - began


def opening(data: Path) -> tuple[float, float]:
    """Return the seconds and MB that a process takes to open the folder."""
    script = (
        "import resource, sys, time; from pathlib import Path\n"
        "from nmt.data.folder import DataFolder\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "began = time.monotonic(); DataFolder.open(Path(sys.argv[1]))\n"
        "seconds = time.monotonic() - began\n"
        "print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(data)], capture_output=True, text=True, check=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def test_prepare_speed(tmp_path: Path) -> None:
    corpus = real_text("europarl-en-fr")
    for lang in ("en", "fr"):
        write_text(corpus / f"train.{lang}.xz", tmp_path / f"train.{lang}")
    text_bytes = sum((tmp_path / f"train.{lang}").stat().st_size for lang in ("en", "fr"))
    texts = ["--src", "en", "--tgt", "fr", "--train", f"{tmp_path}/train"]
    texts += ["--valid", f"{corpus}/valid"]
    whole = tmp_path / "whole"
    learning = processes.nmt("prepare", str(whole), *texts, "--vocab-size", str(VOCAB_SIZE))
    vocabulary = Vocabulary.load(whole / "vocab.model")
    prepared: list[processes.Finished] = []

    def prepare() -> float:
        out, model = tmp_path / f"data-{len(prepared)}", whole / "vocab.model"
        prepared.append(processes.nmt("prepare", str(out), *texts, "--vocab", str(model)))
        return prepared[-1].seconds

    yardstick = "SentencePiece alone"
    systems: dict[str, Callable[[], float]] = {
        yardstick: partial(sentencepiece_seconds, tmp_path, vocabulary),
        "prepare, vocabulary given": prepare,
    }
    timed = in_turn(systems, ROUNDS) | {"prepare, learning included": [learning.seconds]}
    medians = {name: statistics.median(found) for name, found in timed.items()}
    rows = [
        [
            name,
            spread(found, ".1f"),
            f"{PAIRS / medians[name]:,.0f}",
            f"{medians[name] / medians[yardstick]:.2f}x",
        ]
        for name, found in timed.items()
    ]
    train = DataFolder.open(whole).train
    epochs = Epochs(train.shares, seed=1)
    plan = plan_pool(train, epochs, batch_tokens=BATCH_TOKENS, seed=1, epoch=0, pool=0)
    seconds, megabytes = opening(whole)
    peak = max(one.peak_bytes for one in prepared)
    said = "\n".join(line for line in prepared[-1].stderr.splitlines() if "CPU seconds" in line)
    header = ["", f"seconds, median of {ROUNDS} (range)", "pairs/s", yardstick]
    publish(
        f"{describe()}. {PAIRS:,} pairs of Europarl en-fr, {text_bytes / 1e6:,.0f} MB, vocabulary "
        f"of {VOCAB_SIZE:,}.\n\n{table(header, rows)}\n\n"
        f"Memory of all processes: {peak / 1e9:.2f} GB, {learning.peak_bytes / 1e9:.2f} learning. "
        f"Opening: {seconds:.2f} s, {megabytes:.0f} MB. "
        f"Padding: {padding(train, plan):.1%} in batches of {BATCH_TOKENS:,} tokens.\n\n{said}"
    )
    assert all(second > 0 for found in timed.values() for second in found)
