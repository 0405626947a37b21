"""What `nmt train` and Marian reach on a million pairs of Europarl, English to French.

Both train the same model by the same recipe on the same subwords, with the same number of target
tokens an update: Marian in fp32, `nmt train` in bf16 where the CPU has bf16 instructions. What is
taken is BLEU of newstest2013, which is of another domain, after the same updates and after the same
time. Each translates by its own search, with beam 4 and the length penalty length^0.6.

NMT_BENCH_UPDATES        updates of `nmt train`, a multiple of 500; 1,000 by default
NMT_BENCH_PEER_UPDATES   updates of Marian, likewise
NMT_BENCH_MARIAN         a Python that can import pymarian, if this one cannot
NMT_BENCH_WORK           a folder that keeps data and models: an interrupted benchmark goes on
NMT_BENCH_OUT            a file that the table is added to; the pictures come to stand beside it
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from benchmarks import corpora, translation_contenders
from benchmarks.learning import History, Model, seconds_per_update, train
from benchmarks.machine import CORES, describe, has_bf16
from benchmarks.marian import Training
from benchmarks.peers import find_python, version
from benchmarks.report import publish, publish_picture, spread, table

from nmt.config import resolve_recipe
from nmt.model_config import TransformerConfig
from nmt.models.registry import preset_values
from nmt.plot import Panel, Series, draw_curves
from nmt.scoring.metrics import Score, score

pytestmark = pytest.mark.benchmark

STRETCH = 500
UPDATES = int(os.environ.get("NMT_BENCH_UPDATES", "1000"))
PEER_UPDATES = int(os.environ.get("NMT_BENCH_PEER_UPDATES", "1000"))
PRESET = "transformer_small"
PRECISION = "bf16" if has_bf16() else "fp32"
LEARNING_RATE = 0.001  # at its peak
WARMUP = 1000
BATCH_TOKENS = 2048
BEAM_SIZE = 4
MARIAN_BATCH = 32  # lines

Translate = Callable[[int, Path, Path], object]
"""Takes the update whose model is to translate, the input and the output."""


def test_learning_curve(tmp_path: Path) -> None:
    for variable, updates in (
        ("NMT_BENCH_UPDATES", UPDATES),
        ("NMT_BENCH_PEER_UPDATES", PEER_UPDATES),
    ):
        if updates < STRETCH or updates % STRETCH:
            pytest.fail(f"{variable}={updates}: take a multiple of {STRETCH}")
    python = find_python("NMT_BENCH_MARIAN", "pymarian")
    work = Path(os.environ.get("NMT_BENCH_WORK", tmp_path))
    work.mkdir(exist_ok=True)
    data = work / "data"
    if not data.exists():
        corpora.europarl_whole(data)

    histories = {f"nmt, {PRECISION}": learn(data, work / "nmt")}
    signature = histories[f"nmt, {PRECISION}"][1].signature
    packages = ""
    if python:
        histories["Marian, fp32"] = learn_by_marian(python, data, work / "marian")
        packages = f", pymarian {version(python, 'pymarian')}"
    publish(f"{describe()}{packages}; {CORES} threads; newstest2013: {signature}")
    curves = {name: history for name, (history, _) in histories.items()}
    publish(learning_table(curves))
    publish_pictures(curves)
    assert all(max(one.bleu) > 0 for one in curves.values())


def learn(data: Path, run: Path) -> tuple[History, Score]:
    """Train `nmt`; return what it reached, and the last score."""
    changes = {
        "dropout": 0.1,
        "batch_tokens": BATCH_TOKENS,
        "warmup_updates": WARMUP,
        "ema_decay": 0,
        "precision": PRECISION,
        "validate_bleu": "false",
        "save_every": STRETCH,
        "keep_last": UPDATES,
    }
    updates = list(range(STRETCH, UPDATES + 1, STRETCH))
    train(Model(PRESET, LEARNING_RATE, changes), data, run, UPDATES, STRETCH)

    def translate(update: int, source: Path, output: Path) -> None:
        model = run / "checkpoints" / f"update-{update:08d}.safetensors"
        translation_contenders.nmt(model, PRECISION, BEAM_SIZE).time_command(source, output, 0)

    scores = scores_of(updates, translate, run)
    bleu = [one.score for one in scores]
    return History(updates, seconds_per_update(run, updates), bleu), scores[-1]


def learn_by_marian(python: str, data: Path, folder: Path) -> tuple[History, Score]:
    """Train Marian; return the same of it."""
    config = resolve_recipe("", "transformer", [("", preset_values(PRESET))]).model
    assert isinstance(config, TransformerConfig)
    training = Training(python, folder, data, config, BATCH_TOKENS)
    if not folder.exists():
        folder.mkdir()
        training.write_text()
    updates = list(range(STRETCH, PEER_UPDATES + 1, STRETCH))
    seconds = training.learn(PEER_UPDATES, STRETCH, LEARNING_RATE, WARMUP)

    def translate(update: int, source: Path, output: Path) -> None:
        translation_contenders.marian(
            training.checkpoint(update), training.vocabulary, python, BEAM_SIZE
        ).time_command(source, output, MARIAN_BATCH)

    scores = scores_of(updates, translate, folder)
    return History(updates, seconds, [one.score for one in scores]), scores[-1]


def scores_of(updates: list[int], translate: Translate, folder: Path) -> list[Score]:
    """Return BLEU of newstest2013 by the models after these updates."""
    sources, references = corpora.newstest2013("fr")
    source = folder / "newstest2013.en"
    source.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    found = []
    for update in updates:
        output = folder / f"newstest2013-{update}.fr"
        if not output.exists():
            translate(update, source, output)
        lines = output.read_text(encoding="utf-8").split("\n")[:-1]
        assert len(lines) == len(references), output
        found.append(score(lines, [references])["bleu"])
    return found


def learning_table(curves: Mapping[str, History]) -> str:
    """Return BLEU after the same updates, with the time that they took."""
    header = ["updates"]
    for name, one in curves.items():
        taken = spread([1000 * seconds for seconds in one.seconds_per_update])
        header += [f"{name}: BLEU", f"minutes, by {taken} ms an update"]
    rows = []
    for place in range(max(len(one.updates) for one in curves.values())):
        row = [f"{(place + 1) * STRETCH:,}"]
        for one in curves.values():
            reached = place < len(one.updates)
            row += (
                [f"{one.bleu[place]:.2f}", f"{one.seconds[place] / 60:.1f}"]
                if reached
                else ["", ""]
            )
        rows.append(row)
    return table(header, rows)


def publish_pictures(curves: Mapping[str, History]) -> None:
    """Draw BLEU over updates and over time."""
    title = "Europarl, English to French: newstest2013"
    by_updates = {
        name: list(zip(one.updates, one.bleu, strict=True)) for name, one in curves.items()
    }
    by_time = {
        name: [(seconds / 60, bleu) for seconds, bleu in zip(one.seconds, one.bleu, strict=True)]
        for name, one in curves.items()
    }
    for what, x_label, points in (
        ("updates", "update", by_updates),
        ("time", "minutes of training", by_time),
    ):
        series = [Series(name, found) for name, found in points.items()]
        panel = Panel(f"BLEU over {what}", series, "newstest2013")
        publish_picture(f"europarl-bleu-over-{what}", draw_curves([panel], title, x_label=x_label))
