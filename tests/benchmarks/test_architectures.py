"""The claim of "Attention Is All You Need", measured: attention beside recurrence and convolution.

Models with about the same number of parameters learn Multi30k by the same recipe, except for the
learning rate. They take turns after some updates, so that a slow minute hits all alike. The report
has BLEU of the valid text after the same updates, and after the same time, which is that of the
fastest model. It also has BLEU of the test text, the speed of translation, and BLEU on lines of
several captions, which are longer than any in training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from benchmarks import corpora
from benchmarks.harness import (
    nmt,
    publish,
    publish_picture,
    rounds,
    setting,
    spread,
    table,
    work_folder,
)
from benchmarks.machine import CORES, describe
from benchmarks.translation import nmt as translator
from toy_training import metrics

from nmt.models.model_file import load_model
from nmt.plot import Panel, draw_curves
from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark


@dataclass(frozen=True)
class Model:
    """A preset and its changes."""

    preset: str
    learning_rate: float
    """At its peak."""
    changes: Mapping[str, object] = field(default_factory=dict)


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
CHOSEN = setting("MODELS", FAMILIES)
NAMES = list(MODELS) if CHOSEN == "all" else CHOSEN.split(";")
UPDATES = setting("UPDATES", 800)
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
    "validate_bleu": "true",
    "sample_translations": 0,
    "save_every": 1_000_000,
}
ROUNDS = rounds(3)
BEAM_SIZE = 5
CAPTIONS = (1, 2, 3, 4, 6, 8)
"""Of a line."""
TEST_LINES = 960  # the first of 1,000: full lines of any of these
TITLE = "Multi30k, English to German"


@dataclass(frozen=True)
class Curve:
    """BLEU and speed of a system."""

    bleu: Mapping[int, float]
    """By update."""
    seconds: Sequence[float]
    """Of an update, for each measurement."""

    @property
    def minutes(self) -> list[float]:
        """Return the time until each BLEU, by the median time of an update."""
        return [update * median(self.seconds) / 60 for update in self.bleu]

    def bleu_at(self, minutes: float) -> float:
        """Return BLEU after a time, between two validations by interpolation."""
        return float(np.interp(minutes, self.minutes, list(self.bleu.values())))


@dataclass(frozen=True)
class Translated:
    """A model's translations of the test text, by the number of captions of a line."""

    bleu: list[float]
    seconds: list[float]
    """Of lines of one caption, for each round."""


def test_architectures(tmp_path: Path) -> None:
    if UPDATES < STRETCH or UPDATES % STRETCH:
        pytest.fail(f"NMT_BENCH_UPDATES={UPDATES}: take a multiple of {STRETCH}")
    work = work_folder(tmp_path)
    runs = {name: work / f"run-{list(MODELS).index(name)}" for name in NAMES}
    curves = learn(runs, work / "data")
    models = {name: run / "last.safetensors" for name, run in runs.items()}
    translated = translate(models, tmp_path)
    publish(f"{describe()}; {CORES} threads")
    same_time = min(one.minutes[-1] for one in curves.values())
    publish(
        table(
            {
                "": name,
                "parameters": f"{parameters(models[name]):,}",
                "ms an update, median (range)": spread([1000 * s for s in one.seconds], ".0f"),
                f"valid BLEU after {UPDATES:,} updates": f"{one.bleu[UPDATES]:.2f}",
                f"after {same_time:.1f} minutes": f"{one.bleu_at(same_time):.2f}",
                "test BLEU": f"{translated[name].bleu[0]:.2f}",
                f"sentences/s, beam {BEAM_SIZE}, median of {ROUNDS} (range)": spread(
                    [TEST_LINES / seconds for seconds in translated[name].seconds], ".1f"
                ),
            }
            for name, one in curves.items()
        )
    )
    publish(
        table(
            {"test BLEU, captions of a line": name}
            | {str(n): f"{bleu:.2f}" for n, bleu in zip(CAPTIONS, one.bleu, strict=True)}
            for name, one in translated.items()
        )
    )
    bleu = {name: list(one.bleu.values()) for name, one in curves.items()}
    by_update = {name: (list(one.bleu), bleu[name]) for name, one in curves.items()}
    by_time = {name: (one.minutes, bleu[name]) for name, one in curves.items()}
    by_length = {name: (CAPTIONS, one.bleu) for name, one in translated.items()}
    draw("updates", "valid text", "update", by_update)
    draw("time", "valid text", "minutes of training", by_time)
    draw("length", "test text", "captions of a line", by_length)
    assert all(max(one.bleu.values()) > 0 for one in curves.values())


def learn(runs: Mapping[str, Path], data: Path) -> dict[str, Curve]:
    """Train all for the same updates, in turn."""
    if not data.exists():
        corpora.multi30k(data, vocab_size=4_000)
    for updates in range(STRETCH, UPDATES + 1, STRETCH):
        for name, run in runs.items():
            model = MODELS[name]
            values = {**RECIPE, **model.changes, "learning_rate": model.learning_rate}
            train(data, run, model.preset, updates, values)
    curves = {name: curve_of(run) for name, run in runs.items()}
    further = max(max(one.bleu) for one in curves.values())
    if further > UPDATES:
        pytest.fail(
            f"runs of {data.parent} have {further} updates: take as many, or another folder"
        )
    return curves


def train(data: Path, out: Path, preset: str, updates: int, values: Mapping[str, object]) -> None:
    """Train until the run has `updates` updates."""
    validated = {one["update"] for one in metrics(out, "valid")} if out.exists() else set()
    if updates not in validated:
        assignments = {**values, "max_updates": updates}
        settings = [f"--set={key}={value}" for key, value in assignments.items()]
        nmt("train", data, "--out", out, "--model", preset, "--quiet", *settings)


def curve_of(out: Path) -> Curve:
    """Return the curve of a run that has validated BLEU, with the time since each validation."""
    seconds = {0: 0.0} | {one["update"]: one["seconds"] for one in metrics(out, "train")}
    bleu = {one["update"]: one["bleu"] for one in metrics(out, "valid")}
    stretches = pairwise([0, *bleu])
    return Curve(bleu, [(seconds[b] - seconds[a]) / (b - a) for a, b in stretches])


def draw(
    over: str, text: str, x_label: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
) -> None:
    """Publish a picture of BLEU of a text over something; lines: places and BLEU, by system."""
    series = [(system, list(zip(x, y, strict=True))) for system, (x, y) in lines.items()]
    panel = Panel(f"BLEU over {over}", series, text)
    publish_picture(f"bleu-over-{over}", draw_curves([panel], TITLE, x_label=x_label))


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


def parameters(model: Path) -> int:
    return sum(parameter.numel() for parameter in load_model(model)[0].parameters())
