"""`nmt prepare` beside SentencePiece alone, on a million pairs of real text, or on its copies."""

import lzma
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

import pytest
from benchmarks.corpora import real_text
from benchmarks.harness import Finished, in_turn, nmt, publish, rounds, setting, spread, table
from benchmarks.machine import CORES, describe
from sentencepiece import SentencePieceProcessor

pytestmark = pytest.mark.benchmark

PAIRS = setting("LINES", 1_000_000)
ROUNDS = rounds(3)
VOCAB_SIZE = 32_000
BATCH_LINES = 4096
LINES_OF_TEXT = 1_000_000  # of the corpus


def write_text(source: Path, path: Path) -> None:
    """Write the text as often as needed. A number before a line makes its copies differ."""
    with path.open("wb") as out:
        for first in range(0, PAIRS, LINES_OF_TEXT):
            mark = b"(%d) " % (first // LINES_OF_TEXT) if first else b""
            with lzma.open(source) as file:
                out.writelines(mark + line for line in islice(file, PAIRS - first))


def sentencepiece_seconds(text: Path, model: Path) -> float:
    """Encode both sides with SentencePiece's own threads, in batches, and keep nothing."""
    processor = SentencePieceProcessor(model_file=str(model), num_threads=CORES)
    began = time.monotonic()
    for lang in ("en", "fr"):
        with (text / f"train.{lang}").open(newline="\n") as file:
            while lines := [line.rstrip("\n") for line in islice(file, BATCH_LINES)]:
                processor.encode(lines)
    return time.monotonic() - began


def test_prepare_speed(tmp_path: Path) -> None:
    corpus = real_text("europarl-en-fr")
    for lang in ("en", "fr"):
        write_text(corpus / f"train.{lang}.xz", tmp_path / f"train.{lang}")
    text_bytes = sum((tmp_path / f"train.{lang}").stat().st_size for lang in ("en", "fr"))
    prepared: list[Finished] = []

    def prepare(*vocabulary: str | Path) -> float:
        out = tmp_path / f"data-{len(prepared)}"
        train, valid = tmp_path / "train", corpus / "valid"
        pairs = ("--src", "en", "--tgt", "fr", "--train", train, "--valid", valid)
        prepared.append(nmt("prepare", out, *pairs, *vocabulary, with_children=True))
        return prepared[-1].seconds

    learning = [prepare("--vocab-size", str(VOCAB_SIZE))]
    model = tmp_path / "data-0" / "vocab.model"
    yardstick = "SentencePiece alone"
    systems: dict[str, Callable[[], float]] = {
        yardstick: partial(sentencepiece_seconds, tmp_path, model),
        "prepare, vocabulary given": partial(prepare, "--vocab", model),
    }
    timed = in_turn(systems, ROUNDS) | {"prepare, learning included": learning}
    rows = (
        {
            "": name,
            f"seconds, median of {ROUNDS} (range)": spread(found, ".1f"),
            "pairs/s": f"{PAIRS / median(found):,.0f}",
            yardstick: f"{median(found) / median(timed[yardstick]):.2f}x",
        }
        for name, found in timed.items()
    )
    peak = max(one.peak_bytes for one in prepared[1:])
    said = "\n".join(line for line in prepared[-1].stderr.splitlines() if "CPU seconds" in line)
    publish(
        f"{describe()}. {PAIRS:,} pairs of Europarl en-fr, {text_bytes / 1e6:,.0f} MB, vocabulary "
        f"of {VOCAB_SIZE:,}.\n\n{table(rows)}\n\n"
        f"Memory of all processes: {peak / 1e9:.2f} GB, {prepared[0].peak_bytes / 1e9:.2f} "
        f"learning.\n\n"
        f"{said}"
    )
    assert all(second > 0 for found in timed.values() for second in found)
