"""`nmt prepare` as a shell sees it: exit status, stdout, stderr."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Answer, Nmt
from toy_training import pairs, write_text

Prepare = Callable[..., Answer]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder of 50 pairs to train on and 3 to validate with."""
    text = pairs(53, seed=1)
    for name, part in (("train", text[:50]), ("valid", text[50:])):
        write_text(tmp_path, name, part)
    return tmp_path


@pytest.fixture
def prepare(nmt: Nmt, corpus: Path) -> Prepare:
    """Prepare the corpus as `data`."""

    def run(*words: str) -> Answer:
        texts = ["--train", f"{corpus}/train", "--valid", f"{corpus}/valid", "--workers", "1"]
        return nmt("prepare", corpus / "data", "--src", "en", "--tgt", "de", *texts, *words)

    return run


def add(corpus: Path, src: str, tgt: str) -> None:
    """Add lines to the training text."""
    for lang, lines in (("en", src), ("de", tgt)):
        with (corpus / f"train.{lang}").open("a") as file:
            file.write(lines)


def test_prepare_tells_what_it_did_and_then_that_it_is_done(prepare: Prepare, corpus: Path) -> None:
    add(corpus, "same\n\n", "same\nleer\n")
    done = prepare("--vocab-size", "300")
    assert (done.status, done.stdout) == (0, "")
    assert "50 of 52 pairs kept; rejected: empty 1, identical 1" in done.stderr
    assert "train: 50 pairs" in done.stderr
    assert re.search(f"{corpus}/data is ready, .*300", done.stderr)

    again = prepare("--vocab-size", "300")
    assert (again.status, again.stdout) == (0, "")
    assert "already prepared" in again.stderr
    assert "vocab_size" in prepare("--vocab-size", "301").refusal(2)


def test_quiet_says_nothing(prepare: Prepare) -> None:
    assert prepare("--vocab-size", "300", "--quiet") == (0, "", "")


def test_a_dry_run_shows_what_the_rules_take_and_writes_nothing(
    prepare: Prepare, corpus: Path
) -> None:
    add(corpus, "same\n", "same\n")
    before = sorted(corpus.iterdir())
    tried = prepare("--dry-run", "100", "--quiet")
    assert (tried.status, tried.stderr) == (0, "")
    assert f"{corpus}/train: 50 of 51 pairs kept\n" in tried.stdout
    assert "    train.en line 51: same\n    train.de line 51: same\n" in tried.stdout
    assert sorted(corpus.iterdir()) == before
