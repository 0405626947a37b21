"""`nmt prepare` as a shell sees it: exit status, stdout, stderr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nmt", "prepare", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [f"number {n} is {'even' if n % 2 == 0 else 'odd'}" for n in range(50)]
    for name, count in (("train", 50), ("valid", 3)):
        for lang in ("en", "de"):
            text = "".join(f"{lang} {line}\n" for line in lines[:count])
            (tmp_path / f"{name}.{lang}").write_text(text)
    return tmp_path


def arguments(corpus: Path, *more: str) -> list[str | Path]:
    texts = ["--train", f"{corpus}/train", "--valid", f"{corpus}/valid"]
    return [corpus / "data", "--src", "en", "--tgt", "de", *texts, *more]


def test_prepare_tells_what_it_did_and_then_that_it_is_done(corpus: Path) -> None:
    with (corpus / "train.en").open("a") as src, (corpus / "train.de").open("a") as tgt:
        src.write("same\n\n")
        tgt.write("same\nleer\n")
    done = run(*arguments(corpus, "--vocab-size", "300"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "50 of 52 pairs kept; rejected: empty 1, identical 1" in done.stderr
    assert "train: 50 pairs" in done.stderr
    assert f"{corpus}/data is ready, with a vocabulary of 300" in done.stderr

    again = run(*arguments(corpus, "--vocab-size", "300"))
    assert (again.returncode, again.stdout) == (0, "")
    assert "already prepared" in again.stderr

    other = run(*arguments(corpus, "--vocab-size", "301"))
    assert other.returncode == 2
    assert "vocab_size was 300 and is 301" in other.stderr


def test_quiet_says_nothing(corpus: Path) -> None:
    done = run(*arguments(corpus, "--vocab-size", "300", "--quiet"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--vocab-size", "9999"], 2, "9999 is too large for this text"),
        (["--keep", "ratoi", "--seed", "-1"], 2, "did you mean 'ratio'?"),
        (["--keep", "ratoi", "--seed", "-1"], 2, "--seed -1: must be 0 or more"),
        (["--encoding", "utf-9"], 2, "--encoding utf-9"),
        (["--vocab", "/nowhere/spm.model"], 1, "/nowhere/spm.model"),
        (["--test", "/nowhere/test"], 1, "/nowhere/test.en: no such file"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_a_failure_is_one_line_and_a_status(
    corpus: Path, more: list[str], status: int, message: str
) -> None:
    failed = run(*arguments(corpus, *more))
    assert (failed.returncode, failed.stdout) == (status, "")
    error = failed.stderr.splitlines()[-1]
    assert error.startswith("nmt: error: ")
    assert message in error
    assert "Traceback" not in failed.stderr
    assert not (corpus / "data").exists()


def test_unequal_sides_fail_with_both_counts_and_nothing_written(corpus: Path) -> None:
    with (corpus / "train.de").open("a") as file:
        file.write("one more\n")
    before = sorted(corpus.iterdir())
    failed = run(*arguments(corpus))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "train.en has 50 lines and" in failed.stderr
    assert "train.de has 51" in failed.stderr
    assert sorted(corpus.iterdir()) == before


def test_help_names_every_rule_and_default() -> None:
    done = run("--help")
    assert done.returncode == 0
    for text in ("too_long", "duplicate", "default: 256", "default: 32000", "Examples"):
        assert text in done.stdout


def test_a_dry_run_shows_what_the_rules_take_and_writes_nothing(corpus: Path) -> None:
    with (corpus / "train.en").open("a") as src, (corpus / "train.de").open("a") as tgt:
        src.write("same\n")
        tgt.write("same\n")
    before = sorted(corpus.iterdir())
    tried = run(*arguments(corpus, "--dry-run", "100", "--quiet"))
    assert (tried.returncode, tried.stderr) == (0, "")
    assert f"{corpus}/train: 50 of 51 pairs kept\n" in tried.stdout
    assert "    train.en line 51: same\n    train.de line 51: same\n" in tried.stdout
    assert sorted(corpus.iterdir()) == before
