"""`nmt translate` beside CTranslate2 and Marian: one model, the same sentences.

Each system translates a file of captions with the same length penalty, with the fastest of a few
batch sizes. The time is that from text to text after loading and warming up: subword segmentation
counts for all. BLEU, and the share of lines that equal those of `nmt` in fp32, show whether it is
the same work.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import pytest
from benchmarks import corpora, harness, translation
from benchmarks.harness import in_turn, is_installed, publish, rounds, setting, spread, table
from benchmarks.machine import describe, has_bf16
from benchmarks.translation import BEAM_SIZE, Contender, card_for_peers, model_of

from nmt.interchange.marian_export import fault_of
from nmt.models.model_file import ModelCard
from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark

PEERS = ("ctranslate2", "pymarian")


@pytest.mark.parametrize(
    ("size", "usual"), [("small", "1000"), ("base", "300"), ("trained", "300,1000")]
)
def test_translation_speed(size: str, usual: str, tmp_path: Path) -> None:
    model = model_of(size, tmp_path)
    card = card_for_peers(model)
    systems = {one.name: one for one in gather(model, card, tmp_path)}
    versions = [f"{name} {version(name)}" for name in PEERS if is_installed(name)]
    publish(f"{'; '.join([describe(), *versions])}.")
    for lines in setting("LINES", usual).split(","):
        title = f"{size} model, Multi30k test, {int(lines):,} lines"
        publish(table(compare(systems, card, int(lines), title, tmp_path)))


def compare(
    systems: Mapping[str, Contender], card: ModelCard, count: int, title: str, folder: Path
) -> list[dict[str, str]]:
    """Return the rows of a table: all systems on the first lines of the test text."""
    sources, references = corpora.multi30k_test(count)
    text = folder / "text"
    text.write_text("".join(f"{source}\n" for source in sources), encoding="utf-8")
    batches = {name: system.fastest_batch(text, folder) for name, system in systems.items()}
    output = {name: folder / f"output-{number}" for number, name in enumerate(systems)}
    measures = {
        name: partial(system.seconds, text, output[name], batches[name])
        for name, system in systems.items()
    }
    found = in_turn(measures, rounds())
    rows = []
    for name in sorted(systems, key=lambda name: -systems[name].beam_size):
        _, *how = name.split(", ")  # the precision and the search
        lines, ours = (
            output[one].read_text(encoding="utf-8").split("\n")[:-1]
            for one in (name, f"nmt, fp32, {how[1]}")
        )
        assert len(lines) == len(sources), name
        loop, peer = median(found[name]), found.get(f"CTranslate2, {', '.join(how)}")
        tokens = sum(map(len, card.tgt_vocabulary.encode(lines)))
        rows.append(
            {
                title: name,
                "sentences/s, median (range)": spread([len(lines) / s for s in found[name]], ".1f"),
                "target tokens/s": f"{tokens / loop:,.0f}",
                "beside CTranslate2": f"{median(peer) / loop:.2f}x" if peer else "",
                "BLEU": f"{score(lines, [references])['bleu'].score:.2f}",
                "lines as nmt fp32": f"{sum(map(str.__eq__, lines, ours)) / len(lines):.1%}",
                "batch": str(batches[name] or "its own"),
            }
        )
    return rows


def gather(model: Path, card: ModelCard, folder: Path) -> Iterator[Contender]:
    """Yield every installed system, with the model in its own format."""
    pieces = folder / "vocab.spm"
    pieces.write_bytes(card.tgt_vocabulary.model)
    for beam_size in (BEAM_SIZE, 1):
        yield translation.nmt(model, "fp32", beam_size)
    if has_bf16():
        yield translation.nmt(model, "bf16", BEAM_SIZE)
    for precision in ("fp32", "int8") if is_installed("ctranslate2") else ():
        exported = folder / f"ctranslate2-{precision}"
        quantization = [] if precision == "fp32" else ["--quantization", precision]
        harness.nmt("export", "ctranslate2", model, exported, *quantization)
        for beam_size in (BEAM_SIZE, 1):
            yield translation.nmt(exported, precision, beam_size)
            yield translation.ctranslate2(exported, pieces, precision, beam_size)
    if is_installed("pymarian") and fault_of(card) is None:
        exported = folder / "marian"
        harness.nmt("export", "marian", model, exported)
        for beam_size in (BEAM_SIZE, 1):
            yield translation.marian(exported / "model.npz", exported / "vocab.spm", beam_size)
