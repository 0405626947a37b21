"""What `nmt train` and Marian reach on a million pairs of Europarl, English to French.

Both train the same model by the same recipe on the same subwords, with the same number of tokens an
update: Marian in fp32, and `nmt train` in bf16 if the CPU has bf16 instructions. The report has
BLEU of newstest2013, which is of another domain, after the same updates and after the same time.
Each translates by its own search, with beam 4 and the length penalty length^0.6. Speeds are
measured separately, in turn, so that other work during the long trainings does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks import corpora, training, translation
from benchmarks.harness import (
    find_python,
    publish,
    rounds,
    setting,
    spread,
    table,
    version,
    work_folder,
)
from benchmarks.learning import Curve, draw_learning, train
from benchmarks.machine import CORES, describe, has_bf16
from benchmarks.marian import Marian, src_over_tgt
from benchmarks.training import Contender, Job
from toy_training import metrics

from nmt.scoring.metrics import Score, score

pytestmark = pytest.mark.benchmark

STRETCH = 500
FIRST = 1500  # updates: before, models write nonsense up to the longest length, which takes hours
UPDATES = setting("UPDATES", 2000)
PEER_UPDATES = setting("PEER_UPDATES", 2000)
ROUNDS = rounds(3)
SECONDS = setting("SECONDS", 30.0)
PRESET = "transformer_small"
PRECISION = "bf16" if has_bf16() else "fp32"
LEARNING_RATE = 0.001  # at its peak
WARMUP = 1000  # updates of it
BATCH_TOKENS = 2048
RECIPE = {
    "device": "cpu",
    "dropout": 0.1,
    "batch_tokens": BATCH_TOKENS,
    "schedule": "inverse_sqrt",  # without a last update, so any training can continue
    "learning_rate": LEARNING_RATE,
    "warmup_updates": WARMUP,
    "precision": PRECISION,
    "sample_translations": 0,
    "log_every": STRETCH,
    "validate_every": STRETCH,
    "save_every": STRETCH,
    "keep_last": UPDATES,
}
BEAM_SIZE = 4
MARIAN_BATCH = 32  # lines
FIRST_UPDATES = 5  # of a measurement of speed, which are not timed

Translate = Callable[[int, Path, Path], object]
"""Takes the update whose model is to translate, the input and the output."""


@dataclass(frozen=True)
class Learner:
    """A trained system."""

    scores: Mapping[int, Score]
    """Of newstest2013, by update."""
    tokens: float
    """Of an update, both sides."""
    contender: Contender
    """The same training, to be timed."""


def test_learning_curve(tmp_path: Path) -> None:
    for variable, updates in (("UPDATES", UPDATES), ("PEER_UPDATES", PEER_UPDATES)):
        if updates < FIRST or updates % STRETCH:
            pytest.fail(
                f"NMT_BENCH_{variable}={updates}: take a multiple of {STRETCH} from {FIRST}"
            )
    corpora.real_text("wmt-news")  # without it, this skips before training for hours
    python = find_python("MARIAN", "pymarian")
    work = work_folder(tmp_path)
    data = work / "data"
    if not data.exists():
        corpora.europarl_whole(data)

    learners = {f"nmt, {PRECISION}": learn(data, work / "nmt", tmp_path)}
    packages = ""
    if python:
        learners["Marian, fp32"] = learn_by_marian(python, data, work / "marian", tmp_path)
        packages = f", pymarian {version(python, 'pymarian')}"
    timed = training.timed(
        {name: one.contender for name, one in learners.items()},
        {name: one.tokens for name, one in learners.items()},
        warmup=FIRST_UPDATES,
        seconds=SECONDS,
        rounds=ROUNDS,
    )
    curves = {
        name: Curve(
            {update: found.score for update, found in one.scores.items()},
            [one.tokens / done.tokens_per_second for done in timed[name]],
        )
        for name, one in learners.items()
    }
    signatures = {one.signature for learner in learners.values() for one in learner.scores.values()}
    publish(f"{describe()}{packages}; {CORES} threads; newstest2013: {', '.join(signatures)}")
    publish(learning_table(curves))
    draw_learning("europarl-", "Europarl, English to French", "newstest2013", curves)
    assert all(max(one.bleu.values()) > 0 for one in curves.values())


def learn(data: Path, run: Path, scratch: Path) -> Learner:
    """Train `nmt`."""
    train(data, run, PRESET, UPDATES, RECIPE)

    def translate(update: int, source: Path, output: Path) -> None:
        model = run / "checkpoints" / f"update-{update:08d}.safetensors"
        translation.nmt(model, PRECISION, BEAM_SIZE).time_command(source, output)

    windows = metrics(run, "train")
    updates = sum(one["updates"] for one in windows)
    tokens = sum(
        one["updates"] * one["tokens_per_second"] / one["updates_per_second"] for one in windows
    )
    contender = training.nmt(Job(data, PRESET, BATCH_TOKENS), PRECISION, scratch)
    return Learner(scores_of(UPDATES, translate, run), tokens / updates, contender)


def learn_by_marian(python: str, data: Path, folder: Path, scratch: Path) -> Learner:
    """Train Marian."""
    # Marian counts the source side of a batch; `nmt` counts the larger one, here the target side.
    ratio = src_over_tgt(data)
    job = Job(data, PRESET, round(BATCH_TOKENS * ratio))
    marian = Marian(python, folder, job)
    target_tokens = marian.learn(PEER_UPDATES, STRETCH, LEARNING_RATE, WARMUP)

    def translate(update: int, source: Path, output: Path) -> None:
        translation.marian(
            marian.checkpoint(update), marian.vocabulary, python, beam_size=BEAM_SIZE
        ).time_command(source, output, MARIAN_BATCH)

    scores = scores_of(PEER_UPDATES, translate, folder)
    contender = Marian(python, scratch / "marian-speed", job).train
    return Learner(scores, target_tokens * (1 + ratio), contender)


def scores_of(updates: int, translate: Translate, folder: Path) -> dict[int, Score]:
    """Return BLEU of newstest2013 by the models on the way to so many updates."""
    sources, references = corpora.newstest2013()
    source = folder / "newstest2013.en"
    source.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    found = {}
    for update in range(FIRST, updates + 1, STRETCH):
        output = folder / f"newstest2013-{update}.fr"
        if not output.exists():
            partial = output.with_suffix(".partial")
            translate(update, source, partial)
            partial.rename(output)
        lines = output.read_text(encoding="utf-8").split("\n")[:-1]
        assert len(lines) == len(references), output
        found[update] = score(lines, [references])["bleu"]
    return found


def learning_table(curves: Mapping[str, Curve]) -> str:
    """Return BLEU after the same updates, with the time that they take."""
    rows = {update: {"updates": f"{update:,}"} for one in curves.values() for update in one.bleu}
    for name, one in curves.items():
        taken = spread([1000 * seconds for seconds in one.seconds])
        for (update, bleu), minutes in zip(one.bleu.items(), one.minutes, strict=True):
            rows[update][f"{name}: BLEU"] = f"{bleu:.2f}"
            rows[update][f"minutes, by {taken} ms an update"] = f"{minutes:.1f}"
    return table(rows[update] for update in sorted(rows))
