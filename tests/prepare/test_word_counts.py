"""Counts of words: in bounded memory, by the weights of the texts, for the pieces of all text."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prepare_job import content, job_of, pairs, write

from nmt.data import line_blocks
from nmt.data.vocabulary import learn_vocabulary
from nmt.prepare.vocabularies import whole_weights
from nmt.prepare.word_counts import WordCounts

TEXT = [f"the {n} red cats see {n * n} ‘old’ Hunde im Wald" for n in range(60)]
TEXT += ["中文字符 中文", "a\0b c\u00a0d", "faʻa ünter u\u0308nter", "__N__ ok __N__s"]
TEXT += ["x" * 60_000]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split_digits": True},
        {"character_coverage": 0.98, "vocab_size": 280},
        {"symbols": ["__N__"], "controls": [">>de<<"]},
        {"normalization": "nmt_nfkc"},
        {"normalization": "identity"},
    ],
    ids=str,
)
def test_pieces_are_those_of_the_text(options: dict[str, Any]) -> None:
    options = {"vocab_size": 390, **options}
    words = Counter(" ".join(TEXT).split(" "))
    from_text, from_words = learn_vocabulary(TEXT, **options), learn_vocabulary(words, **options)
    ids = range(len(from_text))
    assert from_words.tokens(ids) == from_text.tokens(ids)
    assert from_words.merges() == from_text.merges()


def test_the_vocabulary_is_learnt_from_all_text_by_default(tmp_path: Path) -> None:
    job = job_of(tmp_path, write(tmp_path, "train", pairs(60)))
    folder = job.prepare()
    some = job.but(out=tmp_path / "some", sample_size=10).prepare()
    every = job.but(out=tmp_path / "every", sample_size=60).prepare()
    ids = range(330)
    assert folder.src_vocabulary.tokens(ids) == every.src_vocabulary.tokens(ids)
    assert folder.src_vocabulary.tokens(ids) != some.src_vocabulary.tokens(ids)


@pytest.mark.parametrize("fix", [(), ("entities",)])
def test_what_counting_has_judged_is_what_encoding_would_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fix: tuple[str, ...]
) -> None:
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", 8)
    dropped = [("same", "same"), ("a\x07b", "ab"), ("red &amp; blue", "rot &amp; blau")]
    texts = [*pairs(30), *dropped], [*reversed(dropped[:2]), *pairs(60)[30:]]
    train = [write(tmp_path, name, text) for name, text in zip("ab", texts, strict=True)]
    job = job_of(tmp_path, *train, fix=fix)
    learnt = job.prepare()
    given = job.but(out=tmp_path / "given", vocab=(learnt.path / "vocab.model",)).prepare()
    rejected = [corpus.rejected for corpus in learnt.info.train.corpora]
    assert rejected == [{"control": 1, "identical": 1}] * 2
    assert [corpus.rejected for corpus in given.info.train.corpora] == rejected
    for name in ("train-00000.bin", "train-00001.bin", "rejects.txt"):
        assert (given.path / name).read_bytes() == (learnt.path / name).read_bytes()


@pytest.mark.parametrize("separate", [False, True])
def test_the_vocabulary_is_the_same_with_more_workers(tmp_path: Path, separate: bool) -> None:
    train = [write(tmp_path, name, pairs(60)) for name in ("a", "b")]
    weights = (f"{train[0]}=0.3", f"{train[1]}=1.7")
    job = job_of(tmp_path, *train, weight=weights, separate_vocab=separate, vocab_size=310)
    job.prepare()
    job.but(out=tmp_path / "two", workers=2).prepare()
    assert content(tmp_path / "two") == content(job.out)


@pytest.mark.parametrize(
    ("weights", "whole"),
    [
        ([1.0, 1.0], [1, 1]),
        ([0.5, 0.5, 1.5], [1, 1, 3]),
        ([0.1, 0.3], [1, 3]),
        ([1.0, 1.3], [16, 21]),
        ([0.02, 0.05], [16, 40]),
    ],
)
def test_weights_become_multiples_of_the_smallest(weights: list[float], whole: list[int]) -> None:
    assert whole_weights(weights) == whole


def test_too_many_words_leave_the_frequent_ones_and_a_sample_of_the_rest() -> None:
    counts = WordCounts(most_characters=6_000)
    for block in range(40):
        rare = {f"{block:02}{number:03}": 1 for number in range(250)}  # 10,000 words in all
        counts.add({"frequent": 50, "often": 20} | rare, 1)
        assert sum(map(len, counts.counts)) <= 6_000
    assert counts.counts.pop("frequent") == 2_000
    assert counts.counts.pop("often") == 800
    assert sum(counts.counts.values()) == pytest.approx(10_000, rel=0.25)
    first_blocks = sum(count for word, count in counts.counts.items() if int(word[:2]) < 20)
    assert first_blocks == pytest.approx(5_000, rel=0.4)  # not only what came last
