"""The size of the vocabulary if it is not given: by the number of pairs, or as the text allows."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import Stderr
from prepare_job import Job, content, pairs, write

from nmt.errors import Stopped, UsageError
from nmt.prepare import vocabularies
from nmt.prepare.vocabularies import size_for, size_with


@pytest.fixture
def unsized(job: Job) -> Job:
    return job.but(vocab_size=None)


@pytest.mark.parametrize(
    ("size", "pairs"),
    [
        (2_000, [0, 9_999]),
        (4_000, [10_000, 19_999]),
        (8_000, [20_000, 29_000, 160_000]),
        (16_000, [250_000, 999_999]),
        (32_000, [1_000_000, 36_000_000]),
    ],
)
def test_the_size_depends_on_the_pairs(size: int, pairs: list[int]) -> None:
    assert {size_for(count) for count in pairs} == {size}


@pytest.mark.parametrize("subwords", ["bpe", "unigram"])
def test_little_text_gets_the_most_it_allows(unsized: Job, stderr: Stderr, subwords: str) -> None:
    job = unsized.but(subwords=subwords)
    folder = job.prepare()
    told = stderr()
    (size,) = folder.info.vocabulary.sizes
    assert re.search(r"--vocab-size .*2,000, .* 60 pairs", told)
    assert re.search(f"en and de: .* {size:,}, ", told)
    assert folder.info.settings["vocab_size"] == 2_000
    assert len(folder.src_vocabulary) == size
    with pytest.raises(UsageError, match=f"{size + 1} .*--vocab-size {size} "):
        job.but(out=job.out / "other", vocab_size=size + 1).prepare()
    # The same command finds the folder.
    job.prepare()
    assert "already prepared" in stderr()


def test_all_texts_count(unsized: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabularies, "_SIZES", {61: 300, 121: 320})
    more = write(tmp_path, "more", [(f"{one} b", f"{other} d") for one, other in pairs(60)])
    both = (f"en-de={more}", f"de-en={unsized.options.train[0]}")
    job = unsized.but(src_lang="", tgt_lang="", train=(), pair=both, valid=(), valid_lines=3)
    assert job.prepare().info.settings["vocab_size"] == 320


@pytest.mark.parametrize(
    ("characters", "size", "expected"),
    [
        (150, 4_000, 4_000),  # alphabets
        (3_253, 8_000, 12_000),  # 24,000 captions in Chinese
        (2_019, 8_000, 10_000),  # 60,000 sentences in Japanese
    ],
)
def test_many_characters_need_more_pieces(characters: int, size: int, expected: int) -> None:
    assert size_with(characters, size) == expected


DRAWN: dict[str, object] = {"valid": (), "valid_lines": 2, "keep": ("script",)}


@pytest.mark.parametrize("subwords", ["bpe", "unigram"])
def test_the_characters_of_a_text_are_counted(
    unsized: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: Stderr, subwords: str
) -> None:
    monkeypatch.setattr(vocabularies, "_SIZES", {10_000: 900})
    monkeypatch.setattr(vocabularies, "_ROUND", 10)
    characters = [chr(0x4E00 + number) for number in range(600)]
    lines = [(f"the {a} 1 {b}", f"das {b} 2 {a}") for a, b in pairwise(characters)]
    rare = ("the \u0416 1", "das 2")  # one in 10,000 is no character of the text
    job = unsized.but(train=(write(tmp_path, "zh", [*lines, rare]),), **DRAWN, subwords=subwords)
    (size,) = job.prepare().info.vocabulary.sizes
    known = len(characters) + len("thedas12") + (subwords == "unigram")  # and spaces in lines
    assert size == size_with(known, 900) == 1_310
    assert f"taking {size:,}, because the text has 600 pairs and {known}" in stderr()


def test_too_few_pieces_for_so_many_characters_are_doubled(
    unsized: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: Stderr
) -> None:
    monkeypatch.setattr(vocabularies, "_SIZES", {10_000: 270})
    characters = [chr(0x4E00 + number) for number in range(100)]
    lines = [(f"the {a}{b} {n}", f"das {b}{a}") for n, (a, b) in enumerate(pairwise(characters))]
    folder = unsized.but(train=(write(tmp_path, "zh", lines),), **DRAWN).prepare()
    (size,) = folder.info.vocabulary.sizes
    assert size > 260 + 100
    told = re.findall(r"nmt: en and de: taking ([\d,]+),", stderr())
    assert told[0] == "1,080"  # 270, doubled until it is twice as large as the characters need
    assert told[-1] == f"{size:,}"


@pytest.mark.usefixtures("small_blocks")
def test_a_run_that_was_killed_goes_on_with_the_same_vocabulary(
    unsized: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = unsized.but(out=tmp_path / "whole", shard_pairs=10).prepare()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr("nmt.prepare.reject_report.check_any_left", killed)
        unsized.but(shard_pairs=10).prepare()
    with monkeypatch.context() as patch:
        patch.setattr("nmt.prepare.prepare.learn_vocabularies", killed)  # not learnt again
        folder = unsized.but(shard_pairs=10).prepare()
    assert folder.info.settings == whole.info.settings
    assert content(folder.path)["vocab.model"] == content(whole.path)["vocab.model"]
