"""`nmt translate` beside CTranslate2 and Marian: one model, the same sentences.

Each system translates a file of captions with the same length penalty, with the fastest of a few
batch sizes. Three times are measured: of the whole command, of its loop from text to text after
loading and warming up (subword segmentation counts for all), and of the command on a single line,
which is its start. BLEU, and the share of lines that equal those of `nmt` in fp32, show whether it
is the same work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import pytest
from benchmarks import corpora, harness
from benchmarks.harness import (
    in_turn,
    is_installed,
    publish,
    rounds,
    setting,
    spread,
    table,
)
from benchmarks.machine import describe, has_bf16
from benchmarks.translation import (
    BEAM_SIZE,
    Contender,
    card_for_peers,
    ctranslate2,
    fastest_batch,
    marian,
    model_of,
    nmt,
)

from nmt.interchange.marian_export import fault_of
from nmt.models.model_file import ModelCard
from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark

DEFAULT_LINES = {"small": 1000, "base": 300}
ROUNDS = rounds()
GREEDY = 1
PEERS = ("ctranslate2", "pymarian")
ONE_LINE = "A man is riding a bicycle.\n"


@dataclass(frozen=True)
class Figures:
    """The seconds of a round of a system, and its translations."""

    command: float
    loop: float
    start: float
    lines: list[str]


@pytest.mark.parametrize("size", ("small", "base"))
def test_translation_speed(size: str, tmp_path: Path) -> None:
    sources, references = corpora.multi30k_test(setting("LINES", DEFAULT_LINES[size]))
    text, line = tmp_path / "text", tmp_path / "line"
    text.write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
    line.write_text(ONE_LINE, encoding="utf-8")
    outputs = (tmp_path / f"output-{number}" for number in itertools.count())  # none of them twice
    model = model_of(size, tmp_path)
    card = card_for_peers(model)
    gathered = gather(model, card, tmp_path)
    systems = {one.name: one for one in sorted(gathered, key=lambda one: -one.beam_size)}
    batches = {name: fastest_batch(system, text, outputs) for name, system in systems.items()}

    def measure(name: str) -> Figures:
        system, batch, output = systems[name], batches[name], next(outputs)
        command = system.time_command(text, output, batch)
        lines = output.read_text(encoding="utf-8").split("\n")[:-1]
        assert len(lines) == len(sources), name
        loop = system.time_loop(text, next(outputs), batch)
        return Figures(command, loop, system.time_command(line, next(outputs), batch), lines)

    found = in_turn({name: partial(measure, name) for name in systems}, ROUNDS)

    def row(name: str) -> dict[str, str]:
        system, figures = systems[name], found[name]
        ours, lines = found[f"nmt, fp32, {system.search}"], figures[-1].lines
        loop = median(one.loop for one in figures)
        tokens = sum(map(len, card.tgt_vocabulary.encode(lines)))
        same = sum(map(str.__eq__, lines, ours[-1].lines)) / len(lines)
        engine = found.get(f"CTranslate2, {system.precision}, {system.search}", figures)
        return {
            f"transformer_{size}, Multi30k test, {len(sources):,} lines": name,
            f"command, s, median of {ROUNDS} (range)": spread(
                [one.command for one in figures], ".1f"
            ),
            "loop, sentences/s": spread([len(lines) / one.loop for one in figures], ".1f"),
            "target tokens/s": f"{tokens / loop:,.0f}",
            "loop beside nmt fp32": f"{median(one.loop for one in ours) / loop:.2f}x",
            "loop beside CTranslate2": f"{median(one.loop for one in engine) / loop:.2f}x",
            "BLEU": f"{score(lines, [references])['bleu'].score:.2f}",
            "lines as nmt fp32": f"{same:.1%}",
            "one line, s": f"{median(one.start for one in figures):.2f}",
            "batch": f"{batches[name]:,} {system.unit}" if system.batches else "its own",
        }

    versions = [f"{name} {version(name)}" for name in PEERS if is_installed(name)]
    missing = [name for name in PEERS if not is_installed(name)]
    note = f" Not installed: pip install {' '.join(missing)}." if missing else ""
    publish(f"{'; '.join([describe(), *versions])}.{note}")
    publish(table(map(row, systems)))
    for one in itertools.chain.from_iterable(found.values()):
        assert min(one.command, one.loop, one.start) > 0


def gather(model: Path, card: ModelCard, folder: Path) -> Iterator[Contender]:
    """Yield every installed system, with the model in its own format."""
    pieces = folder / "vocab.spm"
    pieces.write_bytes(card.tgt_vocabulary.model)
    yield nmt(model, "fp32", BEAM_SIZE)
    if has_bf16():
        yield nmt(model, "bf16", BEAM_SIZE)
    yield nmt(model, "fp32", GREEDY)
    for precision in ("fp32", "int8"):
        if is_installed("ctranslate2"):
            exported = folder / f"ctranslate2-{precision}"
            quantization = [] if precision == "fp32" else ["--quantization", precision]
            harness.nmt("export", "ctranslate2", model, exported, *quantization)
            yield nmt(exported, precision, BEAM_SIZE)
            yield nmt(exported, precision, GREEDY)
            yield ctranslate2(exported, pieces, precision=precision, beam_size=BEAM_SIZE)
            yield ctranslate2(exported, pieces, precision=precision, beam_size=GREEDY)
    if is_installed("pymarian") and fault_of(card) is None:
        exported = folder / "marian"
        harness.nmt("export", "marian", model, exported)
        for beam_size in (BEAM_SIZE, GREEDY):
            weights = exported / "model.npz"
            yield marian(weights, exported / "vocab.spm", beam_size=beam_size)
