"""A language learnt from text alone, through all commands of the real command line.

"the small cat sees a dog" is "ein hund sieht die kleine katze": words are translated, the two noun
phrases change places, and articles and adjectives agree with their noun's gender. Test sentences
are not among those trained on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from random import Random

import pytest
import torch
from toy_training import flat, metrics, write_text

NOUNS = {
    "cat": ("katze", "f"),
    "dog": ("hund", "m"),
    "cow": ("kuh", "f"),
    "bird": ("vogel", "m"),
    "mouse": ("maus", "f"),
    "wolf": ("wolf", "m"),
}
ADJECTIVES = {"": "", "small": "klein", "old": "alt", "wild": "wild"}
VERBS = {"sees": "sieht", "hears": "hört", "likes": "mag", "finds": "findet"}
ARTICLES = {
    ("the", "m"): ("der", "e"),
    ("the", "f"): ("die", "e"),
    ("a", "m"): ("ein", "er"),
    ("a", "f"): ("eine", "e"),
}
BEST_POSSIBLE = 100.0
BOUND = 90.0  # BLEU on sentences never seen; one wrong word in twenty costs about ten
SETTINGS = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "d_model": 64,
    "d_ff": 128,
    "num_heads": 4,
    "batch_tokens": 600,
    "micro_batch_tokens": 2000,
    "learning_rate": 4e-3,
    "warmup_updates": 60,
    "max_updates": 400,
    "validate_every": 100,
    "save_every": 100,
    "validate_bleu": True,
    "threads": 1,
    "device": "cpu",
}


def noun_phrase(article: str, adjective: str, noun: str) -> tuple[str, str]:
    german, gender = NOUNS[noun]
    der, ending = ARTICLES[article, gender]
    described = f"{ADJECTIVES[adjective]}{ending} " if adjective else ""
    english = " ".join(word for word in (article, adjective, noun) if word)
    return english, f"{der} {described}{german}".strip()


def language() -> list[tuple[str, str]]:
    """All sentences, in a fixed order of chance."""
    phrases = [noun_phrase(*words) for words in product(("the", "a"), ADJECTIVES, NOUNS)]
    sentences = [
        (f"{subject[0]} {verb} {other[0]}", f"{other[1]} {VERBS[verb]} {subject[1]}")
        for subject, verb, other in product(phrases, VERBS, phrases)
        if subject != other
    ]
    Random(1).shuffle(sentences)
    return sentences


class Pipeline:
    """The commands, run from a working directory that is nobody's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()

    def nmt(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run a command; return what it wrote to stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "nmt", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.elsewhere,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert not list(self.elsewhere.iterdir())
        return done.stdout

    def score(self, reference: Path, hypothesis: str) -> float:
        """Return BLEU as `nmt score --json` gives it."""
        answer = self.nmt("score", reference, "--json", "--metric", "bleu", stdin=hypothesis)
        found = json.loads(answer)
        assert list(found) == ["bleu"]
        assert found["bleu"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
        return float(found["bleu"]["score"])


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Text, a data folder and a run; afterwards the text and the data are gone from their place."""
    folder = tmp_path_factory.mktemp("pipeline")
    sentences = language()
    train, valid, test = sentences[:2000], sentences[2000:2050], sentences[2050:2150]
    text, made = folder / "text", Pipeline(folder)
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        write_text(text, name, part)
    made.nmt(
        *("prepare", folder / "data", "--src", "en", "--tgt", "de", "--vocab-size", "340"),
        *("--train", text / "train", "--valid", text / "valid", "--quiet"),
    )
    settings = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    made.nmt(
        *("train", folder / "data", "--out", folder / "run", "--model", "transformer_tiny"),
        *("--quiet", *settings),
    )
    (folder / "data").rename(folder / "moved away")
    return made


@pytest.fixture(scope="module")
def averaged(pipeline: Pipeline) -> Path:
    path = pipeline.folder / "averaged.safetensors"
    pipeline.nmt("average", pipeline.folder / "run", "--last", "3", "--out", path)
    return path


def test_the_language_is_what_it_says() -> None:
    assert ("the small cat sees a dog", "ein hund sieht die kleine katze") in language()
    assert ("a wild wolf likes the old cow", "die alte kuh mag ein wilder wolf") in language()
    assert len({english for english, _ in language()}) == len(language()) == 48 * 4 * 47


def test_a_language_is_learnt(pipeline: Pipeline, averaged: Path) -> None:
    source, reference = (pipeline.folder / f"text/test.{lang}" for lang in ("en", "de"))
    output = pipeline.folder / "test.out"
    pipeline.nmt("translate", averaged, "--input", source, "--output", output)
    assert pipeline.score(reference, output.read_text()) > BOUND
    assert pipeline.score(reference, reference.read_text()) == pytest.approx(BEST_POSSIBLE)


def test_training_logged_what_translate_and_score_give(pipeline: Pipeline) -> None:
    run, text = pipeline.folder / "run", pipeline.folder / "text"
    first, *_, last = metrics(run, "valid")
    for record in (first, last):
        checkpoint = run / f"checkpoints/update-{record['update']:08d}.safetensors"
        translated = pipeline.nmt("translate", checkpoint, stdin=(text / "valid.en").read_text())
        assert pipeline.score(text / "valid.de", translated) == pytest.approx(record["bleu"])
    assert 0 < first["bleu"] < last["bleu"]  # so that they could differ


def test_the_run_folder_alone_translates_with_its_best_model(pipeline: Pipeline) -> None:
    assert not (pipeline.folder / "data").exists()
    copied = pipeline.folder / "copied"
    copied.mkdir()
    shutil.copy(pipeline.folder / "run/best.safetensors", copied / "best.safetensors")
    lines = "the cat sees a dog\n\nan unknown zebra\n"
    answers = [
        pipeline.nmt("translate", model, stdin=lines)
        for model in (pipeline.folder / "run", copied / "best.safetensors")
    ]
    assert answers[0] == answers[1]
    assert len(answers[0].splitlines()) == 3
    assert answers[0].splitlines()[1] == ""


def test_the_average_of_one_checkpoint_is_itself(pipeline: Pipeline) -> None:
    best, mean = (pipeline.folder / name for name in ("run/best.safetensors", "mean.safetensors"))
    pipeline.nmt("average", best, best, "--out", mean)
    assert torch.equal(flat(mean), flat(best))


def test_commands_go_through_pipes(pipeline: Pipeline) -> None:
    run, text = pipeline.folder / "run", pipeline.folder / "text"
    python = f"{sys.executable} -m nmt"
    line = f"{python} translate {run} --quiet < {text}/valid.en | {python} score {text}/valid.de"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=pipeline.elsewhere,
    )
    assert done.returncode == 0, done.stderr
    name, score = re.split(r"\t", done.stdout.splitlines()[1])[:2]
    assert name == "BLEU"
    best = max(metrics(run, "valid"), key=lambda record: -record["loss"])
    assert float(score) == pytest.approx(best["bleu"], abs=0.005)
