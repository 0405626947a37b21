"""How well `nmt train` and Marian translate after as many minutes, and after as many updates.

One model learns one text, with as many target tokens an update, to the end of a short schedule.
One training after the other has the whole machine, each as you type it. Minutes are the wall clock
from the start of a command until an update, by its log, so start-up and earlier saves count. The
same decoder translates the checkpoints of all of them after the training. The picture over minutes
shows the best setting of each toolkit.
"""

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from benchmarks import corpora, harness
from benchmarks.machine import describe, has_bf16
from benchmarks.training import ONE_THREAD, Job, marian_command, sides, train_words
from benchmarks.translation import BEAM_SIZE
from benchmarks.translation import nmt as translator
from toy_training import metrics

from nmt.scoring.metrics import score

pytestmark = pytest.mark.benchmark

STEP = max(1, harness.setting("UPDATES", 600) // 6)
UPDATES = 6 * STEP
POINTS = range(STEP, UPDATES + 1, STEP)
WARMUP = UPDATES // 2
RATE = "1e-3"
TITLE = "Multi30k, English to German"
OURS = r"^(\d\d-\d\d [\d:]+) update (\d+) epoch"
MARIANS = r"^\[\d{4}-(\S+ [\d:]+)\] Ep\. \d+ : Up\. ([\d,]+) "
"""Find the time of a line of a log, and its update."""


class Training(NamedTuple):
    """What a finished training tells of itself."""

    target_tokens: float  # of an update, eos included
    minutes: list[float]  # until each point


Train = Callable[[Job, Path], Training]
"""Trains in a folder, and leaves the models N.safetensors there, by the number of their update."""


def test_learning_curves(tmp_path: Path) -> None:
    folder = harness.work_folder(tmp_path) / f"learning-curves-{UPDATES}"
    folder.mkdir(exist_ok=True)
    job = Job(corpora.multi30k(folder / "data"), "transformer_portable", 2_000)
    trained = {name: finished(train, job, folder / str(n)) for n, (name, train) in gather()}
    bleu = {name: scores(folder / str(n)) for n, (name, _) in gather()}
    same_time = min(one.minutes[-1] for one in trained.values())
    by_time = {name: ([0, *one.minutes], [0, *bleu[name]]) for name, one in trained.items()}
    reached = {name: float(np.interp(same_time, *line)) for name, line in by_time.items()}
    rows, points = [], []
    for name, (tokens, minutes) in trained.items():
        speed = tokens * sides(job) * UPDATES / (60 * minutes[-1])
        rows.append(
            {
                f"{job.preset}, Multi30k, {UPDATES:,} updates": name,
                "target tokens an update": f"{tokens:,.0f}",
                "minutes": f"{minutes[-1]:.1f}",
                "source + target tokens/s": f"{speed:,.0f}",
                "valid BLEU at the end": f"{bleu[name][-1]:.2f}",
                f"after {same_time:.1f} minutes": f"{reached[name]:.2f}",
            }
        )
        found = zip(POINTS, bleu[name], minutes, strict=True)
        cells = {f"{update:,}": f"{value:.2f} ({at:.1f})" for update, value, at in found}
        points.append({"valid BLEU (minutes) by update": name} | cells)
    marian = [f"pymarian {version('pymarian')}"] if harness.is_installed("pymarian") else []
    harness.publish(
        f"{'; '.join([describe(), *marian])}.\n\n{harness.table(rows)}\n\n{harness.table(points)}"
    )
    by_update = {name: ([0, *POINTS], [0, *of]) for name, of in bleu.items()}
    harness.publish_bleu("learning-over-updates", by_update, "valid text", "update", TITLE)
    # Of each toolkit, the setting that is ahead when the fastest training ends.
    best = {name.split(",")[0]: name for name in sorted(reached, key=reached.__getitem__)}
    two = {name: line for name, line in by_time.items() if name in best.values()}
    harness.publish_bleu("learning-over-minutes", two, "valid text", "minutes of training", TITLE)
    assert all(len(of) == len(POINTS) for of in bleu.values())


def gather() -> list[tuple[int, tuple[str, Train]]]:
    """Return numbered trainings: ours, and Marian's three settings, if Marian is installed.

    Marian's rate cannot fall in a line to 0 as ours does. In its second and third setting it falls
    to a tenth in up to 20 steps.
    """
    precisions = ("fp32", "bf16") if has_bf16() else ("fp32",)
    found: dict[str, Train] = {f"nmt, {one}": partial(train_nmt, one) for one in precisions}
    steps = min(20, UPDATES - WARMUP)
    schedule = {
        "--lr-warmup": f"{WARMUP}u",
        "--lr-decay-strategy": "batches",
        "--lr-decay": f"{0.1 ** (1 / steps):.4f}",
        "--lr-decay-start": WARMUP,
        "--lr-decay-freq": (UPDATES - WARMUP) // steps,
    }
    like_ours = harness.words_of(schedule)
    # The first has the rate of `--task transformer-base`, whose schedule is shortened to this run.
    tenth = f"{max(1, UPDATES // 10)}u"
    own = ["--learn-rate", "3e-4", "--lr-warmup", tenth, "--lr-decay-inv-sqrt", tenth]
    scaled = ["--learn-rate", "2e-3", *like_ours, "--transformer-depth-scaling"]
    given = ["--learn-rate", RATE, *like_ours]
    if harness.is_installed("pymarian"):
        found |= {
            "Marian, 3e-4, its weights": partial(train_marian, own),
            "Marian, 2e-3, scaled by depth": partial(train_marian, scaled),
            f"Marian, {RATE}, nmt's weights": partial(
                train_marian, given, first_weights=our_weights
            ),
        }
    return list(enumerate(found.items()))


def finished(train: Train, job: Job, out: Path) -> Training:
    """Train, or return what an earlier training told; one that was killed begins again."""
    record = out / "training.json"
    if not record.exists():
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        record.write_text(json.dumps(train(job, out)))
    return Training(*json.loads(record.read_text()))


def train_nmt(precision: str, job: Job, out: Path) -> Training:
    """Train by `nmt train` with its own choice of processes."""
    began = datetime.now()
    nmt_train(job, out / "run", UPDATES, RATE, precision)
    for point in POINTS:
        model = out / f"run/checkpoints/update-{point:08}.safetensors"
        model.rename(out / f"{point}.safetensors")
    windows = metrics(out / "run", "train")
    both = sum(w["tokens_per_second"] / w["updates_per_second"] * w["updates"] for w in windows)
    log = (out / "run/train.log").read_text(encoding="utf-8")
    return Training(both / sides(job) / UPDATES, minutes_of(log, OURS, began))


def nmt_train(job: Job, out: Path, updates: int, rate: str, precision: str) -> None:
    """Run `nmt train`, whose only validation comes after the last update."""
    values = {
        "guided_alignment": 0,
        "norm_epsilon": 1e-6,  # Marian's
        "learning_rate": rate,
        "schedule": "linear",
        "warmup_updates": min(WARMUP, updates),
        "log_every": STEP,
        "save_every": STEP,
        "keep_last": len(POINTS),
        "validate_every": updates,
    }
    harness.nmt(*train_words(job, out, precision, updates, values))


def our_weights(job: Job, out: Path) -> Path:
    """Return the weights that `nmt train` begins with, but for 1e-12, as a model of Marian."""
    nmt_train(job, out / "first", 1, "1e-12", "fp32")
    harness.nmt("export", "marian", out / "first", out / "first-marian")
    return out / "first-marian/model.npz"


def train_marian(
    options: list[str],
    job: Job,
    out: Path,
    first_weights: Callable[[Job, Path], Path] | None = None,
) -> Training:
    """Train by Marian, from its own initial weights or given ones."""
    if first_weights:
        options = [*options, "--pretrained-model", str(first_weights(job, out))]
    model, vocabulary = out / "model.npz", out / "vocab.spm"
    points = ("--disp-freq", f"{STEP}u", "--save-freq", f"{STEP}u")
    command = marian_command(job, out, model, UPDATES, *points, "--cost-type", "ce-sum", *options)
    began = datetime.now()
    log = harness.run(command, ONE_THREAD).stderr
    for point in POINTS:
        read = ("import", "marian", out / f"model.iter{point}.npz", out / f"{point}.safetensors")
        harness.nmt(*read, "--vocab", vocabulary, "--src", "en", "--tgt", "de")
    labels = re.findall(r" after ([\d,]+) : Time", log)[-1]
    return Training(int(labels.replace(",", "")) / UPDATES, minutes_of(log, MARIANS, began))


def minutes_of(log: str, line: str, began: datetime) -> list[float]:
    """Return the minutes from the start of a command until each point, by the times in its log."""
    found = {
        int(update.replace(",", "")): datetime.strptime(f"{began.year}-{at}", "%Y-%m-%d %H:%M:%S")
        for at, update in re.findall(line, log, re.MULTILINE)
    }
    return [(found[point] - began).total_seconds() / 60 for point in POINTS]


def scores(out: Path) -> list[float]:
    """Return BLEU of the valid text for each point, translated now or earlier."""
    lines, bleu = harness.setting("LINES", 1_014), []
    valid, text = corpora.real_text("multi30k") / "val", out / f"valid-{lines}"
    sources, references = (corpora.first_lines(valid, lang, lines) for lang in ("en", "de"))
    text.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    for point in POINTS:
        output = out / f"{point}-{lines}.txt"
        if not output.exists():
            translator(out / f"{point}.safetensors", "fp32", BEAM_SIZE).seconds(text, output)
        translations = output.read_text(encoding="utf-8").split("\n")[:-1]
        bleu.append(score(translations, [references])["bleu"].score)
    return bleu
