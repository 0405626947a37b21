"""`nmt translate` beside CTranslate2, Marian and transformers: one model, the same sentences.

Each system translates a file of captions with the same length penalty, with the fastest of a few
batch sizes. Three times are measured: of the whole command, of its loop from text to text after
loading and warming up (subword segmentation counts for all), and of the command on a single line,
which is its start. BLEU, and the share of lines that equal those of `nmt` in fp32, show whether it
is the same work.

NMT_BENCH_CONFIGS       which, by comma: small-multi30k, base-multi30k; both by default
NMT_BENCH_ROUNDS        measurements of each system, 5 by default
NMT_BENCH_LINES         how many lines, 1,000 for small and 300 for base by default
NMT_BENCH_MODEL_SMALL   a model file or run folder; without it, one is trained for minutes
NMT_BENCH_MODEL_BASE    the same for base
NMT_BENCH_CTRANSLATE2   a Python that can import ctranslate2 and sentencepiece, if this one cannot
NMT_BENCH_MARIAN        a Python that can import pymarian, if this one cannot
NMT_BENCH_TRANSFORMERS  a Python that can import transformers, torch and sentencepiece, likewise
NMT_BENCH_OUT           a file that the tables are added to
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from benchmarks import corpora
from benchmarks import translation_contenders as contenders
from benchmarks.machine import describe, has_bf16
from benchmarks.marian_weights import write_marian
from benchmarks.peers import find_python, version
from benchmarks.report import publish, rounds, spread, table
from benchmarks.transformers_weights import write_transformers
from benchmarks.translation_contenders import Contender
from benchmarks.translation_models import model_of, open_for_peers

from nmt.data.vocabulary import Vocabulary
from nmt.models.transformer import Transformer
from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark

DEFAULT_LINES = {"small": 1000, "base": 300}
CONFIGURATIONS = [f"{size}-multi30k" for size in DEFAULT_LINES]
CHOSEN = os.environ.get("NMT_BENCH_CONFIGS", ",".join(CONFIGURATIONS)).split(",")
ROUNDS = rounds()
BEAM_SIZE, GREEDY = 4, 1
PEERS = {  # the variable that names a Python, and what it must import
    "ctranslate2": ("NMT_BENCH_CTRANSLATE2", "ctranslate2", "sentencepiece"),
    "pymarian": ("NMT_BENCH_MARIAN", "pymarian"),
    "transformers": ("NMT_BENCH_TRANSFORMERS", "transformers", "torch", "sentencepiece"),
}
ONE_LINE = "A man is riding a bicycle.\n"


@dataclass
class Figures:
    """The seconds of a system, and its translations."""

    batch: int
    command: list[float] = field(default_factory=list)
    loop: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_translation_speed(configuration: str, tmp_path: Path) -> None:
    if configuration not in CHOSEN:
        pytest.skip("not among NMT_BENCH_CONFIGS")
    size, _, corpus = configuration.partition("-")
    count = int(os.environ.get("NMT_BENCH_LINES", DEFAULT_LINES[size]))
    sources, references = corpora.multi30k_test(count)
    model = model_of(size, tmp_path)
    transformer, vocabulary = open_for_peers(model)
    pythons = {name: find_python(*needs) for name, needs in PEERS.items()}
    systems = gather(model, transformer, vocabulary, pythons, tmp_path)
    figures = measure(systems, sources, tmp_path)

    header = [
        f"transformer_{size}, {corpus} test, {len(sources):,} lines",
        f"command, s, median of {ROUNDS} (range)",
        "loop, sentences/s",
        "target tokens/s",
        "loop beside nmt fp32",
        "BLEU",
        "lines as nmt fp32",
        "one line, s",
        "batch",
    ]
    rows = [row(system, figures, references, vocabulary) for system in systems]
    for name, python in pythons.items():
        if not python:
            rows.append([name, f"not installed: pip install {name}", *[""] * (len(header) - 2)])
    versions = [f"{name} {version(python, name)}" for name, python in pythons.items() if python]
    publish(f"{'; '.join([describe(), *versions])}.")
    publish(table(header, rows))
    for found in figures.values():
        assert all(seconds > 0 for seconds in (*found.command, *found.loop, *found.start))


def gather(
    model: Path,
    transformer: Transformer,
    vocabulary: Vocabulary,
    pythons: Mapping[str, str | None],
    folder: Path,
) -> list[Contender]:
    """Give every installed system the model in its own format."""
    pieces = folder / "vocab.spm"  # Marian knows it by this ending
    pieces.write_bytes(vocabulary.model)
    searches = (BEAM_SIZE, GREEDY)
    precisions = ["fp32", *(["bf16"] if has_bf16() else []), "int8"]
    systems = [contenders.nmt(model, precision, BEAM_SIZE) for precision in precisions]
    systems += [contenders.nmt(model, precision, GREEDY) for precision in ("fp32", "int8")]
    shortlist = contenders.export_shortlist(pieces, folder)
    systems += [
        contenders.nmt(model, precision, BEAM_SIZE, shortlist=shortlist)
        for precision in ("fp32", "int8")
    ]
    if python := pythons["ctranslate2"]:
        for precision in ("fp32", "int8"):
            exported = contenders.export_to_ctranslate2(model, precision, folder)
            systems.append(contenders.nmt(exported, precision, BEAM_SIZE, "ctranslate2"))
            systems += [
                contenders.ctranslate2(exported, pieces, python, precision, size)
                for size in searches
            ]
    if python := pythons["pymarian"]:
        weights = folder / "marian.npz"
        write_marian(transformer, weights)
        systems += [contenders.marian(weights, pieces, python, size) for size in searches]
    if python := pythons["transformers"]:
        converted = folder / "transformers"
        converted.mkdir()
        write_transformers(transformer, converted)
        systems += [contenders.transformers(converted, pieces, python, size) for size in searches]
    return sorted(systems, key=lambda system: -system.beam_size)


def measure(
    systems: Sequence[Contender], sources: Sequence[str], folder: Path
) -> dict[str, Figures]:
    """Measure the systems in turn, so that a slow minute hits all alike."""
    text, line = folder / "text", folder / "line"
    text.write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
    line.write_text(ONE_LINE, encoding="utf-8")
    outputs = (folder / f"output-{number}" for number in itertools.count())  # none of them twice
    figures = {
        system.name: Figures(fastest_batch(system, text, outputs) if system.batches else 0)
        for system in systems
    }
    for _ in range(ROUNDS):
        for system in systems:
            found = figures[system.name]
            output = next(outputs)
            found.command.append(system.time_command(text, output, found.batch))
            found.lines = output.read_text(encoding="utf-8").split("\n")[:-1]
            assert len(found.lines) == len(sources), system.name
            found.loop.append(system.time_loop(text, next(outputs), found.batch))
            found.start.append(system.time_command(line, next(outputs), found.batch))
    return figures


def fastest_batch(system: Contender, text: Path, outputs: Iterator[Path]) -> int:
    """Return the batch size with which a system's loop is fastest."""
    seconds = {batch: system.time_loop(text, next(outputs), batch) for batch in system.batches}
    return min(seconds, key=seconds.__getitem__)


def row(
    system: Contender,
    figures: dict[str, Figures],
    references: Sequence[str],
    vocabulary: Vocabulary,
) -> list[str]:
    """Return a system's line of the table."""
    found = figures[system.name]
    ours = figures[f"nmt, fp32, {system.search}"]
    tokens = sum(map(len, vocabulary.encode(found.lines)))
    loop = statistics.median(found.loop)
    same = sum(map(str.__eq__, found.lines, ours.lines)) / len(ours.lines)
    return [
        system.name,
        spread(found.command, ".1f"),
        spread([len(found.lines) / seconds for seconds in found.loop], ".1f"),
        f"{tokens / loop:,.0f}",
        f"{statistics.median(ours.loop) / loop:.2f}x",
        f"{score(found.lines, [references])['bleu'].score:.2f}",
        f"{same:.1%}",
        f"{statistics.median(found.start):.2f}",
        f"{found.batch:,} {system.unit}" if found.batch else "its own",
    ]
