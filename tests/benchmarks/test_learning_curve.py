"""What `nmt train` and Marian reach on a million pairs of Europarl, English to French.

Both train the same model by the same recipe on the same subwords, with the same number of tokens an
update: Marian in fp32, and `nmt train` in bf16 if the CPU has bf16 instructions. The report has
BLEU of newstest2013, which is of another domain, after the same updates and after the same time.
Each translates by its own search, with beam 4 and the length penalty length^0.6. Speeds are
measured separately, in turn, so that other work during the long trainings does not count.

NMT_BENCH_UPDATES        updates of `nmt train`, a multiple of 500 from 1,500 on; 2,000 by default
NMT_BENCH_PEER_UPDATES   updates of Marian, likewise
NMT_BENCH_ROUNDS         measurements of each one's speed, 3 by default
NMT_BENCH_SECONDS        what one takes at least, warm-up not counted, 30 by default
NMT_BENCH_MARIAN         a Python that can import pymarian, if this one cannot
NMT_BENCH_WORK           a folder that keeps data and models: an interrupted benchmark continues
NMT_BENCH_OUT            a file that the table is added to; the pictures go beside it
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import pytest
from benchmarks import contenders, corpora, marian, translation_contenders
from benchmarks.contenders import Contender, Job
from benchmarks.learning import Model, records, train
from benchmarks.machine import CORES, describe, has_bf16
from benchmarks.peers import find_python, version
from benchmarks.report import in_turn, publish, publish_picture, rounds, spread, table
from benchmarks.work import config_of

from nmt.data.folder import DataFolder
from nmt.plot import Panel, Series, draw_curves
from nmt.scoring.metrics import Score, score

pytestmark = pytest.mark.benchmark

STRETCH = 500
FIRST = 1500  # updates: before, models write nonsense up to the longest length, which takes hours
UPDATES = int(os.environ.get("NMT_BENCH_UPDATES", "2000"))
PEER_UPDATES = int(os.environ.get("NMT_BENCH_PEER_UPDATES", "2000"))
ROUNDS = rounds(3)
SECONDS = float(os.environ.get("NMT_BENCH_SECONDS", "30"))
PRESET = "transformer_small"
PRECISION = "bf16" if has_bf16() else "fp32"
LEARNING_RATE = 0.001  # at its peak
WARMUP = 1000  # updates of it
BATCH_TOKENS = 2048
BEAM_SIZE = 4
MARIAN_BATCH = 32  # lines
FIRST_UPDATES = 5  # of a measurement of speed, which are not timed

Test = tuple[list[str], list[str]]
"""Source and reference."""
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


@dataclass(frozen=True)
class Curve:
    """BLEU and speed of a system."""

    bleu: Mapping[int, float]
    seconds: Sequence[float]
    """Of an update, for each measurement."""

    def minutes(self, update: int) -> float:
        """Return the time until an update, by the median time of one."""
        return update * median(self.seconds) / 60


def test_learning_curve(tmp_path: Path) -> None:
    for variable, updates in (
        ("NMT_BENCH_UPDATES", UPDATES),
        ("NMT_BENCH_PEER_UPDATES", PEER_UPDATES),
    ):
        if updates < FIRST or updates % STRETCH:
            pytest.fail(f"{variable}={updates}: take a multiple of {STRETCH} from {FIRST} on")
    python = find_python("NMT_BENCH_MARIAN", "pymarian")
    test = corpora.newstest2013()
    work = Path(os.environ.get("NMT_BENCH_WORK", tmp_path))
    work.mkdir(exist_ok=True)
    data = work / "data"
    if not data.exists():
        corpora.europarl_whole(data)

    learners = {f"nmt, {PRECISION}": learn(data, test, work / "nmt", tmp_path)}
    packages = ""
    if python:
        learners["Marian, fp32"] = learn_by_marian(python, data, test, work / "marian", tmp_path)
        packages = f", pymarian {version(python, 'pymarian')}"
    curves = measured(learners)
    signatures = {one.signature for learner in learners.values() for one in learner.scores.values()}
    publish(f"{describe()}{packages}; {CORES} threads; newstest2013: {', '.join(signatures)}")
    publish(learning_table(curves))
    publish_pictures(curves)
    assert all(max(one.bleu.values()) > 0 for one in curves.values())


def learn(data: Path, test: Test, run: Path, scratch: Path) -> Learner:
    """Train `nmt`."""
    changes = {
        "device": "cpu",
        "dropout": 0.1,
        "batch_tokens": BATCH_TOKENS,
        "warmup_updates": WARMUP,
        "ema_decay": 0,
        "precision": PRECISION,
        "validate_bleu": "false",
        "save_every": STRETCH,
        "keep_last": UPDATES,
    }
    train(Model(PRESET, LEARNING_RATE, changes), data, run, UPDATES, STRETCH)

    def translate(update: int, source: Path, output: Path) -> None:
        model = run / "checkpoints" / f"update-{update:08d}.safetensors"
        translation_contenders.nmt(model, PRECISION, BEAM_SIZE).time_command(source, output, 0)

    windows = records(run, "train").values()
    updates = sum(one["updates"] for one in windows)
    tokens = sum(
        one["updates"] * one["tokens_per_second"] / one["updates_per_second"] for one in windows
    )
    runs = scratch / "nmt-speed"
    runs.mkdir()
    contender = contenders.nmt(Job(data, PRESET, BATCH_TOKENS), PRECISION, runs)
    return Learner(scores_of(UPDATES, translate, test, run), tokens / updates, contender)


def learn_by_marian(python: str, data: Path, test: Test, folder: Path, scratch: Path) -> Learner:
    """Train Marian."""
    config = config_of(PRESET)
    # Marian counts the source side of a batch; `nmt` counts the larger one, here the target side.
    src_over_tgt = marian.src_over_tgt(DataFolder.open(data).info.train)
    batch_tokens = round(BATCH_TOKENS * src_over_tgt)
    training = marian.Training(python, folder, data, config, batch_tokens)
    folder.mkdir(exist_ok=True)
    if not training.vocabulary.exists():
        training.write_text()
    target_tokens = training.learn(PEER_UPDATES, STRETCH, LEARNING_RATE, WARMUP)

    def translate(update: int, source: Path, output: Path) -> None:
        translation_contenders.marian(
            training.checkpoint(update), training.vocabulary, python, BEAM_SIZE
        ).time_command(source, output, MARIAN_BATCH)

    speed = scratch / "marian-speed"
    speed.mkdir()
    return Learner(
        scores_of(PEER_UPDATES, translate, test, folder),
        target_tokens * (1 + src_over_tgt),
        marian.marian(Job(data, PRESET, batch_tokens), config, python, speed),
    )


def scores_of(updates: int, translate: Translate, test: Test, folder: Path) -> dict[int, Score]:
    """Return BLEU of a test text by the models on the way to so many updates."""
    sources, references = test
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


def measured(learners: Mapping[str, Learner]) -> dict[str, Curve]:
    """Time some updates of each, in turn."""
    updates = {  # a short training tells how many updates are enough
        name: max(
            FIRST_UPDATES, round(SECONDS * one.contender(1, 2).tokens_per_second / one.tokens)
        )
        for name, one in learners.items()
    }
    timed = in_turn(
        {
            name: partial(one.contender, FIRST_UPDATES, updates[name])
            for name, one in learners.items()
        },
        ROUNDS,
    )
    return {
        name: Curve(
            {update: found.score for update, found in one.scores.items()},
            [one.tokens / done.tokens_per_second for done in timed[name]],
        )
        for name, one in learners.items()
    }


def learning_table(curves: Mapping[str, Curve]) -> str:
    """Return BLEU after the same updates, with the time that they take."""
    header = ["updates"]
    for name, one in curves.items():
        taken = spread([1000 * seconds for seconds in one.seconds])
        header += [f"{name}: BLEU", f"minutes, by {taken} ms an update"]
    rows = []
    for update in sorted({update for one in curves.values() for update in one.bleu}):
        row = [f"{update:,}"]
        for one in curves.values():
            reached = update in one.bleu
            row += (
                [f"{one.bleu[update]:.2f}", f"{one.minutes(update):.1f}"] if reached else ["", ""]
            )
        rows.append(row)
    return table(header, rows)


def publish_pictures(curves: Mapping[str, Curve]) -> None:
    """Draw BLEU over updates and over time."""
    by_updates = [Series(name, list(one.bleu.items())) for name, one in curves.items()]
    by_time = [
        Series(name, [(one.minutes(update), bleu) for update, bleu in one.bleu.items()])
        for name, one in curves.items()
    ]
    for what, x_label, series in (
        ("updates", "update", by_updates),
        ("time", "minutes of training", by_time),
    ):
        panel = Panel(f"BLEU over {what}", series, "newstest2013")
        title = "Europarl, English to French"
        publish_picture(f"europarl-bleu-over-{what}", draw_curves([panel], title, x_label=x_label))
