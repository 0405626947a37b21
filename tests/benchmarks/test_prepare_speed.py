"""`nmt prepare` beside SentencePiece alone, on a million pairs or more of real text.

NMT_BENCH_PAIRS sets the size: 1,000,000 by default; beyond that, sentences are varied by a word of
another one, so that none is a duplicate.
"""

from __future__ import annotations

import lzma
import os
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
from benchmarks.process_tree import Cost, measure

from nmt.data.epochs import Epochs, padding, plan_pool
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import Vocabulary

pytestmark = pytest.mark.benchmark

PAIRS = int(os.environ.get("NMT_BENCH_PAIRS", "1000000"))
ROUNDS = 3
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
    corpus = Path(os.environ.get("NMT_DATA", "")) / "europarl-en-fr"
    if not corpus.is_dir():
        pytest.skip("needs NMT_DATA, a folder that holds europarl-en-fr/")
    for lang in ("en", "fr"):
        write_text(corpus / f"train.{lang}.xz", tmp_path / f"train.{lang}")
    text_bytes = sum((tmp_path / f"train.{lang}").stat().st_size for lang in ("en", "fr"))
    texts = ["--src", "en", "--tgt", "fr", "--train", f"{tmp_path}/train"]
    texts += ["--valid", f"{corpus}/valid"]
    whole = measure("prepare", f"{tmp_path}/whole", *texts, "--vocab-size", str(VOCAB_SIZE))
    model = tmp_path / "whole" / "vocab.model"
    vocabulary = Vocabulary.load(model)

    alone: list[float] = []
    prepared: list[Cost] = []
    for number in range(ROUNDS):  # interleaved, so that a slow minute hits both alike
        alone.append(sentencepiece_seconds(tmp_path, vocabulary))
        out = f"{tmp_path}/data-{number}"
        prepared.append(measure("prepare", out, *texts, "--vocab", str(model)))
    train = DataFolder.open(tmp_path / "whole").train
    epochs = Epochs(train.shares, seed=1)
    plan = plan_pool(train, epochs, batch_tokens=BATCH_TOKENS, seed=1, epoch=0, pool=0)
    seconds, megabytes = opening(tmp_path / "whole")
    limit, took = statistics.median(alone), statistics.median(cost.seconds for cost in prepared)
    print(
        f"\n{PAIRS:,} pairs of Europarl en-fr, {text_bytes / 1e6:,.0f} MB, vocabulary of "
        f"{VOCAB_SIZE:,}, {len(os.sched_getaffinity(0))} cores; median of {ROUNDS}"
    )
    for name, values in (
        ("SentencePiece alone", alone),
        ("prepare, vocabulary given", [cost.seconds for cost in prepared]),
    ):
        median = statistics.median(values)
        print(
            f"  {name:26} {median:7.1f} s ({min(values):.1f} to {max(values):.1f})  "
            f"{PAIRS / median:8,.0f} pairs/s  {median / limit:.2f}x"
        )
    print(f"  {'prepare, learning included':26} {whole.seconds:7.1f} s")
    peaks = [cost.peak_bytes / 1e9 for cost in prepared]
    print(
        f"  memory of all processes: {max(peaks):.2f} GB, {whole.peak_bytes / 1e9:.2f} learning\n"
        f"  opening: {seconds:.2f} s, {megabytes:.0f} MB\n"
        f"  padding: {padding(train, plan):.1%} in batches of {BATCH_TOKENS:,} tokens"
    )
    print("\n".join(line for line in prepared[-1].stderr.splitlines() if "CPU seconds" in line))
    assert took > 0
