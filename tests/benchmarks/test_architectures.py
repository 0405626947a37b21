"""The claim of "Attention Is All You Need", measured: attention beside recurrence and convolution.

Models with about the same number of parameters learn Multi30k by the same recipe, except for the
learning rate. They take turns after some updates, so that a slow minute hits all alike. The report
has BLEU of the valid text after the same updates, and after the same time, which is that of the
fastest model. It also has BLEU of the test text, the speed of translation, and BLEU on lines of
several captions, which are longer than any in training.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pytest
from benchmarks import corpora, harness
from benchmarks.machine import CORES, describe
from benchmarks.translation import nmt as translator
from toy_training import metrics

from nmt.models.model_file import load_model
from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark


class Model(NamedTuple):
    """A preset and its changes."""

    preset: str
    learning_rate: float  # at its peak
    changes: Mapping[str, object] = {}


# Learning rates: of Transformers the one that served post-norm models of this width in long runs.
# Of others the better of two by valid perplexity after 200 updates: 0.002 and 0.004 for LSTMs,
# 0.003 and 0.006 for convolutions.
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
CHOSEN = harness.setting("MODELS", FAMILIES)
NAMES = list(MODELS) if CHOSEN == "all" else CHOSEN.split(";")
UPDATES = harness.setting("UPDATES", 800)
STRETCH = 400
RECIPE = {
    "dropout": 0.3,
    "batch_tokens": 2000,
    "schedule": "inverse_sqrt",  # without a last update, so any training can continue
    "warmup_updates": 300,
    "ema_decay": 0.995,
    "precision": "fp32",
    "validate_every": STRETCH // 2,
    "log_every": STRETCH // 2,
    "validate_metric": "bleu",
    "sample_translations": 0,
    "save_every": 1_000_000,
}
ROUNDS = harness.rounds(3)
BEAM_SIZE = 5
CAPTIONS = (1, 2, 3, 4, 6, 8)
"""Of a line."""
TEST_LINES = 960  # the first of 1,000: full lines of any of these
TITLE = "Multi30k, English to German"


class Curve(NamedTuple):
    """BLEU of a run's validations, and its speed."""

    updates: list[int]
    bleu: list[float]
    seconds: list[float]  # of an update, between two validations

    @property
    def minutes(self) -> list[float]:
        """Return the time until each BLEU, by the median time of an update."""
        return [update * median(self.seconds) / 60 for update in self.updates]


class Translated(NamedTuple):
    """A model's translations of the test text."""

    bleu: list[float]  # by the number of captions of a line
    seconds: list[float]  # of lines of one caption, for each round


def test_architectures(tmp_path: Path) -> None:
    if UPDATES < STRETCH or UPDATES % STRETCH:
        pytest.fail(f"NMT_BENCH_UPDATES={UPDATES}: take a multiple of {STRETCH}")
    work = harness.work_folder(tmp_path)
    runs = {name: work / f"run-{list(MODELS).index(name)}" for name in NAMES}
    curves = learn(runs, work / "data")
    models = {name: run / "last.safetensors" for name, run in runs.items()}
    translated = translate(models, tmp_path)
    harness.publish(f"{describe()}; {CORES} threads")
    same_time = min(one.minutes[-1] for one in curves.values())
    rows, by_captions = [], []
    for name, one in curves.items():
        test, at_same_time = translated[name], np.interp(same_time, one.minutes, one.bleu)
        parameters = sum(p.numel() for p in load_model(models[name])[0].parameters())
        speeds = [TEST_LINES / seconds for seconds in test.seconds]
        rows.append(
            {
                "": name,
                "parameters": f"{parameters:,}",
                "ms an update, median (range)": harness.spread(
                    [1000 * s for s in one.seconds], ".0f"
                ),
                f"valid BLEU after {UPDATES:,} updates": f"{one.bleu[-1]:.2f}",
                f"after {same_time:.1f} minutes": f"{at_same_time:.2f}",
                "test BLEU": f"{test.bleu[0]:.2f}",
                f"sentences/s, beam {BEAM_SIZE}, median (range)": harness.spread(speeds, ".1f"),
            }
        )
        cells = {str(n): f"{bleu:.2f}" for n, bleu in zip(CAPTIONS, test.bleu, strict=True)}
        by_captions.append({"test BLEU, captions of a line": name} | cells)
    harness.publish(harness.table(rows))
    harness.publish(harness.table(by_captions))
    by_update = {name: (one.updates, one.bleu) for name, one in curves.items()}
    by_time = {name: (one.minutes, one.bleu) for name, one in curves.items()}
    by_length = {name: (CAPTIONS, one.bleu) for name, one in translated.items()}
    harness.publish_bleu("bleu-over-updates", by_update, "valid text", "update", TITLE)
    harness.publish_bleu("bleu-over-time", by_time, "valid text", "minutes of training", TITLE)
    harness.publish_bleu("bleu-over-length", by_length, "test text", "captions of a line", TITLE)
    assert all(max(one.bleu) > 0 for one in curves.values())


def learn(runs: Mapping[str, Path], data: Path) -> dict[str, Curve]:
    """Train all for the same updates, in turn."""
    if not data.exists():
        corpora.multi30k(data, vocab_size=4_000)
    for updates in range(STRETCH, UPDATES + 1, STRETCH):
        for name, out in runs.items():
            if out.exists() and updates in curve_of(out).updates:
                continue
            preset, rate, changes = MODELS[name]
            values = {**RECIPE, **changes, "learning_rate": rate, "max_updates": updates}
            settings = [f"--set={key}={value}" for key, value in values.items()]
            harness.nmt("train", data, "--out", out, "--model", preset, "--quiet", *settings)
    curves = {name: curve_of(run) for name, run in runs.items()}
    further = max(one.updates[-1] for one in curves.values())
    if further > UPDATES:
        pytest.fail(f"runs of {data.parent} have {further} updates: take as many, or a new folder")
    return curves


def curve_of(out: Path) -> Curve:
    """Return the curve of a run that has validated BLEU."""
    seconds = {0: 0.0} | {one["update"]: one["seconds"] for one in metrics(out, "train")}
    bleu = {one["update"]: one["bleu"] for one in metrics(out, "valid")}
    stretches = [(seconds[b] - seconds[a]) / (b - a) for a, b in pairwise([0, *bleu])]
    return Curve(list(bleu), list(bleu.values()), stretches)


def translate(models: Mapping[str, Path], folder: Path) -> dict[str, Translated]:
    """Translate test lines of all numbers of captions by each model, in turn."""
    sides = corpora.multi30k_test(TEST_LINES)
    found = {name: Translated([], []) for name in models}
    for captions in CAPTIONS:
        sources, references = (joined(side, captions) for side in sides)
        text = folder / f"test-{captions}"
        text.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
        for number in range(ROUNDS if captions == 1 else 1):
            for name, model in models.items():
                output = folder / f"{model.parent.name}-{captions}-{number}"
                seconds = translator(model, "fp32", BEAM_SIZE).seconds(text, output)
                if captions == 1:
                    found[name].seconds.append(seconds)
                if number == 0:
                    lines = output.read_text(encoding="utf-8").split("\n")[:-1]
                    found[name].bleu.append(score(lines, [references])["bleu"].score)
    return found


def joined(lines: Sequence[str], count: int) -> list[str]:
    """Make one line of each `count` lines."""
    return [" ".join(lines[start : start + count]) for start in range(0, len(lines), count)]
