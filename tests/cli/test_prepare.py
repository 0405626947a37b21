"""`nmt prepare` as a shell sees it: exit status, stdout, stderr."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.data.manifest import Settings


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
        (["--keep", "ratoi"], 2, "did you mean 'ratio'?"),
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


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--weight", "nothing"], "--weight nothing: must be PREFIX=VALUE"),
        (["--tag", "a=<x>", "--tag", "a=<y>"], "--tag a=<y>: a has one already; give only one"),
        (["--weight", "train=two"], "--weight train=two: must be a number above 0"),
        (["--tag", "nowhere=<2de>"], "--tag nowhere=...: no text has this prefix"),
    ],
)
def test_weights_and_tags_name_a_text(corpus: Path, more: list[str], message: str) -> None:
    failed = run(*arguments(corpus, *more))
    assert failed.returncode == 2
    assert message in failed.stderr


def test_every_setting_comes_from_its_option(
    nmt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Settings(
        src_lang="en",
        tgt_lang="de",
        encoding="latin-1",
        vocab_size=300,
        separate_vocab=True,
        normalization="nfkc",
        moses_normalize=True,
        moses_tokenize=True,
        character_coverage=0.9,
        sample_size=7,
        min_length=2,
        max_length=9,
        max_ratio=3.0,
        max_symbols=0.1,
        duplicates_by="source",
        keep=("identical",),
        seed=8,
        valid_lines=4,
    )
    words: list[str] = []
    for field in dataclasses.fields(Settings):
        value = getattr(wanted, field.name)
        if field.name == "shard_pairs":  # no option
            continue
        assert value != field.default, f"give {field.name} another value than its default"
        words.append(f"--{field.name.removesuffix('_lang').replace('_', '-')}")
        words += [] if value is True else [*value] if field.name == "keep" else [str(value)]
    found: list[Settings] = []
    monkeypatch.setattr(
        "nmt.prepare.prepare.dry_run", lambda options, **_: found.append(options.settings)
    )
    monkeypatch.setattr("nmt.prepare.rejects.report_text", lambda _: "")
    assert nmt("prepare", "data", "--train", "t", "--dry-run", "1", *words).status == 0
    assert found == [wanted]
