"""What the rules took is counted whole, and shown by its first pairs."""

from __future__ import annotations

import json

import numpy as np

from nmt.data.corpus import Encoding
from nmt.prepare.cleaning import RULES
from nmt.prepare.judge import CODES, KEPT
from nmt.prepare.rejects import EXAMPLES_PER_RULE, CorpusRejects, report_json, report_text
from nmt.prepare.text import Block

UTF8 = Encoding.find("utf-8")


def rejects() -> CorpusRejects:
    corpus = CorpusRejects("data/train", "train.en.gz", "train.de")
    src = b"".join(b"s" * n * 20 + b"\n" for n in range(1, 16))
    for number in (1, 16):
        verdicts = np.full(15, CODES["ratio"], np.uint8)
        verdicts[0] = KEPT
        corpus.add(Block(0, number, 15, src, b"t\n" * 15), verdicts, UTF8)
    corpus.add(
        Block(0, 31, 2, b"b\xffd\x07\n\n", b"x\ty\nz\n"),
        np.array([CODES["encoding"], CODES["empty"]], np.uint8),
        UTF8,
    )
    return corpus


def test_all_are_counted_and_the_first_few_shown() -> None:
    corpus = rejects()
    assert (corpus.lines, corpus.kept) == (32, 2)
    assert corpus.counts == {"encoding": 1, "empty": 1, "ratio": 28}
    assert list(corpus.counts) == [rule for rule in RULES if rule in corpus.counts]
    shown = corpus.examples["ratio"]
    assert len(shown) == EXAMPLES_PER_RULE
    assert [example.line for example in shown] == [*range(2, 16), *range(17, 23)]
    assert (shown[0].src, shown[0].tgt) == ("s" * 40, "t")
    assert shown[14].src == "s" * 40
    assert corpus.examples["ratio"][13].src == "s" * 300
    assert corpus.examples["encoding"][0].src == "b\\xffd\x07"


def test_long_examples_are_shortened() -> None:
    corpus = CorpusRejects("p", "p.en", "p.de")
    verdicts = np.array([CODES["too_long"]], np.uint8)
    corpus.add(Block(0, 1, 1, b"s" * 301, b"t"), verdicts, UTF8)
    assert corpus.examples["too_long"][0].src == "s" * 300 + "..."


def test_the_report_for_programs_has_everything() -> None:
    report = json.loads(report_json([rejects()]))
    assert report["rules"]["identical"] == "both sides are equal"
    assert list(report["rules"]) == list(RULES)
    (corpus,) = report["corpora"]
    assert (corpus["prefix"], corpus["lines"], corpus["kept"]) == ("data/train", 32, 2)
    assert corpus["rejected"] == {"encoding": 1, "empty": 1, "ratio": 28}
    assert corpus["examples"]["empty"] == [{"line": 32, "src": "", "tgt": "z"}]


def test_the_report_for_people_names_files_and_lines() -> None:
    text = report_text([rejects()])
    assert "data/train: 2 of 32 pairs kept\n" in text
    assert f"  ratio: 28 (87.50 %): {RULES['ratio'].reason}\n" in text
    assert "    train.en.gz line 31: b\\xffd\\x07\n    train.de line 31: x\\ty\n" in text
    assert text.replace("\n", "").isprintable()
