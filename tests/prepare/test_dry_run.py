"""The rules tried on a sample: what they take, by line, and nothing written."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from nmt.data.manifest import Settings
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError
from nmt.prepare.options import PrepareOptions
from nmt.prepare.prepare import dry_run

LINES = [
    (f"line {n} is good", f"Zeile {n} ist gut") if n % 10 else (f"same {n}", f"same {n}")
    for n in range(1, 201)
]


@pytest.fixture
def options(tmp_path: Path) -> PrepareOptions:
    for name, lines in (("train", LINES), ("valid", LINES[:3])):
        for lang, side in zip(("en", "de"), zip(*lines, strict=True), strict=True):
            (tmp_path / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in side))
    return PrepareOptions(
        out=tmp_path / "data",
        train=(f"{tmp_path}/train",),
        valid=f"{tmp_path}/valid",
        settings=Settings(src_lang="en", tgt_lang="de", max_length=20),
    )


def test_all_pairs_are_judged_where_the_sample_holds_them(
    options: PrepareOptions, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    (corpus,) = dry_run(options, pairs=1000)
    assert (corpus.lines, corpus.counts) == (200, {"identical": 20})
    assert [example.line for example in corpus.examples["identical"]] == list(range(10, 201, 10))
    assert sorted(tmp_path.iterdir()) == before


def test_examples_of_a_sample_have_the_lines_of_the_text(options: PrepareOptions) -> None:
    (corpus,) = dry_run(options, pairs=100)
    assert corpus.lines == 100
    # 100 of 200 lines, 20 of which are bad: 10, with a standard deviation of 2.1.
    assert 0 < corpus.counts["identical"] < 20
    for example in corpus.examples["identical"]:
        assert LINES[example.line - 1] == (example.src, example.tgt)


def test_tokens_are_counted_where_a_vocabulary_is_given(
    options: PrepareOptions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = dataclasses.replace(
        options, settings=dataclasses.replace(options.settings, max_length=3)
    )
    (corpus,) = dry_run(strict, pairs=1000)
    assert corpus.counts == {"identical": 20}
    assert "without --vocab" in capsys.readouterr().err
    model = tmp_path / "spm.model"
    model.write_bytes(learn_vocabulary(["some text"], vocab_size=268).model)
    (corpus,) = dry_run(dataclasses.replace(strict, vocab=(model,)), pairs=1000)
    assert corpus.counts == {"identical": 20, "too_long": 180}
    assert "without --vocab" not in capsys.readouterr().err


def test_text_that_cannot_be_used_is_refused(options: PrepareOptions, tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("one\n")
    with pytest.raises(DataError, match=r"train\.en has 200 lines and .*train\.de has 1"):
        dry_run(options, pairs=10)
