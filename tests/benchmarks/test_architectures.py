"""The claim of "Attention Is All You Need", measured: attention beside recurrence and convolution.

Models with about the same number of parameters learn Multi30k by the same recipe, except for the
learning rate. They take turns after some updates, so that a slow minute hits all alike. The report
has BLEU of the valid text after the same updates, and after the same time, which is that of the
fastest model. It also has BLEU of the test text, the speed of translation, and BLEU on lines of
several captions, which are longer than any in training.

NMT_BENCH_MODELS    which of `MODELS`, with semicolons between, or `all`; a model of each of the
                    three families by default
NMT_BENCH_UPDATES   updates of each, a multiple of 400; 800 by default
NMT_BENCH_ROUNDS    measurements of each translation, 3 by default
NMT_BENCH_WORK      a folder that keeps data and runs: an interrupted benchmark continues
NMT_BENCH_OUT       a file that the tables are added to; the pictures go beside it
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from benchmarks import corpora
from benchmarks.learning import History, Model, history, train
from benchmarks.machine import CORES, describe
from benchmarks.report import publish, publish_picture, rounds, spread, table
from benchmarks.translation_contenders import nmt

from nmt.models.model_file import load_model
from nmt.plot import Panel, Series, draw_curves
from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark

# Learning rates: of Transformers that of `transformer_low_resource`; of others the better of two by
# valid perplexity after 200 updates, 0.002 and 0.004 for LSTMs, 0.003 and 0.006 for convolutions.
MODELS = {
    "Transformer": Model("transformer_small", 0.002),
    "LSTMs": Model("rnn_attention_small", 0.004),
    "convolutions": Model("conv_seq2seq_small", 0.006),
    "modern": Model("transformer_modern_small", 0.002),
    "relative": Model("transformer_small", 0.002, {"positions": "relative"}),
    # As `transformer_deep_shallow`. Post-norm layers learn late where the decoder has few of them:
    # valid BLEU after 600 updates is 6.5 with 4 + 2, where these have 22.6.
    "4 + 2 layers": Model(
        "transformer_modern_small",
        0.002,
        {"num_encoder_layers": 4, "num_decoder_layers": 2, "positions": "sinusoidal"},
    ),
}
FAMILIES = "Transformer;LSTMs;convolutions"
CHOSEN = os.environ.get("NMT_BENCH_MODELS", FAMILIES)
NAMES = list(MODELS) if CHOSEN == "all" else CHOSEN.split(";")
UPDATES = int(os.environ.get("NMT_BENCH_UPDATES", "800"))
STRETCH = 400
ROUNDS = rounds(3)
BEAM_SIZE = 5
CAPTIONS = (1, 2, 3, 4, 6, 8)
"""Of a line."""
TEST_LINES = 960  # the first of 1,000: full lines of any of these


@dataclass(frozen=True)
class Translated:
    """A model's translations of the test text, by the number of captions of a line."""

    bleu: list[float]
    seconds: list[float]
    """Of lines of one caption, for each round."""


def test_architectures(tmp_path: Path) -> None:
    if UPDATES < STRETCH or UPDATES % STRETCH:
        pytest.fail(f"NMT_BENCH_UPDATES={UPDATES}: take a multiple of {STRETCH}")
    work = Path(os.environ.get("NMT_BENCH_WORK", tmp_path))
    work.mkdir(exist_ok=True)
    data = work / "data"
    if not data.exists():
        corpora.multi30k(data, vocab_size=4_000)
    histories, files = learn(data, work)
    translated = translate(files, tmp_path)
    publish(f"{describe()}; {CORES} threads")
    publish(learning_table(histories, files, translated))
    publish(length_table(translated))
    publish_pictures(histories, translated)
    assert all(max(one.bleu) > 0 for one in histories.values())


def learn(data: Path, work: Path) -> tuple[dict[str, History], dict[str, Path]]:
    """Train all for the same updates; return their histories and the models."""
    runs = {name: work / f"run-{list(MODELS).index(name)}" for name in NAMES}
    for updates in range(STRETCH, UPDATES + 1, STRETCH):
        for name, run in runs.items():
            train(MODELS[name], data, run, updates, STRETCH // 2)
    histories = {name: history(run) for name, run in runs.items()}
    further = max(one.updates[-1] for one in histories.values())
    if further > UPDATES:
        pytest.fail(f"runs of {work} have {further} updates: take as many, or another folder")
    return histories, {name: run / "last.safetensors" for name, run in runs.items()}


def translate(files: Mapping[str, Path], folder: Path) -> dict[str, Translated]:
    """Translate test lines of all numbers of captions by each model, in turn."""
    sides = corpora.multi30k_test(TEST_LINES)
    found = {name: Translated([], []) for name in files}
    for captions in CAPTIONS:
        sources, references = (joined(side, captions) for side in sides)
        text = folder / f"test-{captions}"
        text.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        for number in range(ROUNDS if captions == 1 else 1):
            for name, file in files.items():
                output = folder / f"{file.parent.name}-{captions}-{number}"
                seconds = nmt(file, "fp32", BEAM_SIZE).time_loop(text, output, 0)
                if captions == 1:
                    found[name].seconds.append(seconds)
                if number == 0:
                    lines = output.read_text(encoding="utf-8").split("\n")[:-1]
                    found[name].bleu.append(score(lines, [references])["bleu"].score)
    return found


def joined(lines: Sequence[str], count: int) -> list[str]:
    """Make one line of each `count` lines."""
    return [" ".join(lines[start : start + count]) for start in range(0, len(lines), count)]


def learning_table(
    histories: Mapping[str, History],
    files: Mapping[str, Path],
    translated: Mapping[str, Translated],
) -> str:
    """Return the table of BLEU, speed and size."""
    same_time = min(one.seconds[-1] for one in histories.values())
    header = [
        "",
        "parameters",
        "ms an update, median (range)",
        f"valid BLEU after {UPDATES:,} updates",
        f"after {same_time / 60:.1f} minutes",
        "test BLEU",
        f"sentences/s, beam {BEAM_SIZE}, median of {ROUNDS} (range)",
    ]
    rows = []
    for name, one in histories.items():
        model, _ = load_model(files[name])
        rows.append(
            [
                name,
                f"{sum(parameter.numel() for parameter in model.parameters()):,}",
                spread([1000 * taken for taken in one.seconds_per_update], ".0f"),
                f"{one.bleu[-1]:.2f}",
                f"{np.interp(same_time, one.seconds, one.bleu):.2f}",
                f"{translated[name].bleu[0]:.2f}",
                spread([TEST_LINES / taken for taken in translated[name].seconds], ".1f"),
            ]
        )
    return table(header, rows)


def length_table(translated: Mapping[str, Translated]) -> str:
    """Return the table of BLEU by the number of captions of a line."""
    header = ["test BLEU, captions of a line", *map(str, CAPTIONS)]
    return table(
        header, [[name, *(f"{x:.2f}" for x in one.bleu)] for name, one in translated.items()]
    )


def publish_pictures(
    histories: Mapping[str, History], translated: Mapping[str, Translated]
) -> None:
    """Draw BLEU over updates, over time, and over the length of lines."""
    bleu = {name: one.bleu for name, one in histories.items()}
    updates = {name: one.updates for name, one in histories.items()}
    minutes = {name: [x / 60 for x in one.seconds] for name, one in histories.items()}
    _publish_picture("updates", "update", updates, bleu, "valid text")
    _publish_picture("time", "minutes of training", minutes, bleu, "valid text")
    captions = dict.fromkeys(translated, CAPTIONS)
    test = {name: one.bleu for name, one in translated.items()}
    _publish_picture("length", "captions of a line", captions, test, "test text")


def _publish_picture(
    what: str,
    x_label: str,
    places: Mapping[str, Sequence[float]],
    bleu: Mapping[str, Sequence[float]],
    text: str,
) -> None:
    series = [Series(name, list(zip(x, bleu[name], strict=True))) for name, x in places.items()]
    panel = Panel(f"BLEU over {what}", series, text)
    picture = draw_curves([panel], "Multi30k, English to German", x_label=x_label)
    publish_picture(f"bleu-over-{what}", picture)
