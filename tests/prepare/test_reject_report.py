"""What the rules took is counted whole, and shown by its first pairs."""

import json

import numpy as np
import pytest

from nmt.data.corpus import Encoding
from nmt.prepare.block import KEPT, Block
from nmt.prepare.cleaning_options import RULES
from nmt.prepare.filters import CODES
from nmt.prepare.reject_report import EXAMPLES_PER_RULE, CorpusRejects, report_json, report_text

UTF8 = Encoding.find("utf-8")


@pytest.fixture
def corpus() -> CorpusRejects:
    """Two blocks of 16 lines, of which the first is kept, and one of two lines."""
    corpus = CorpusRejects("data/train", "train.en.gz", "train.de")
    src = b"".join(b"s" * n * 20 + b"\n" for n in range(1, 17))
    for number in (1, 17):
        verdicts = np.full(16, CODES["ratio"], np.uint8)
        verdicts[0] = KEPT
        corpus.add(Block(0, number, 16, src, b"t\n" * 16, UTF8), verdicts)
    last = Block(0, 33, 2, b"b\xffd\x07\n\n", b"x\ty\nz\n", UTF8)
    corpus.add(last, np.array([CODES["encoding"], CODES["empty"]], np.uint8))
    return corpus


def test_all_are_counted_and_the_first_few_shown(corpus: CorpusRejects) -> None:
    assert (corpus.lines, corpus.kept) == (34, 2)
    assert corpus.counts == {"encoding": 1, "empty": 1, "ratio": 30}
    assert list(corpus.counts) == [rule for rule in RULES if rule in corpus.counts]
    shown = corpus.examples["ratio"]
    assert len(shown) == EXAMPLES_PER_RULE
    assert [example.line for example in shown] == [*range(2, 17), *range(18, 23)]
    assert (shown[0].src, shown[0].tgt) == ("s" * 40, "t")
    assert [shown[at].src for at in (13, 14, 15)] == ["s" * 300, "s" * 300 + "...", "s" * 40]
    assert corpus.examples["encoding"][0].src == "b\\xffd\x07"


def test_the_report_for_programs_has_everything(corpus: CorpusRejects) -> None:
    report = json.loads(report_json([corpus]))
    assert report["rules"] == RULES
    (told,) = report["corpora"]
    assert (told["prefix"], told["lines"], told["kept"]) == ("data/train", 34, 2)
    assert told["rejected"] == {"encoding": 1, "empty": 1, "ratio": 30}
    assert told["examples"]["empty"] == [{"line": 34, "src": "", "tgt": "z"}]


def test_the_report_for_people_names_files_and_lines(corpus: CorpusRejects) -> None:
    text = report_text([corpus])
    assert "data/train: 2 of 34 pairs kept\n" in text
    assert f"  ratio: 30 (88.24 %): {RULES['ratio']}\n" in text
    assert "    train.en.gz line 33: b\\xffd\\x07\n    train.de line 33: x\\ty\n" in text
    assert text.replace("\n", "").isprintable()
