"""N-best lists are read as search writes them, and put into order by hand-made scores."""

import math
from collections.abc import Iterable, Iterator

import pytest

from nmt.errors import DataError
from nmt.translate.output import (
    BLANK,
    Entry,
    Translation,
    read_n_best,
    read_translations,
    render_n_best,
    rerank,
    with_sources,
)


def translation(text: str, score: float, *others: Translation) -> Translation:
    return Translation(text, score, score, (), (), 1, others=others)


def read(*lines: str) -> list[Entry]:
    return list(read_n_best(lines, "list"))


def test_what_search_writes_is_read() -> None:
    found = translation("a ||| b", -1.5, translation("", -2.0), translation("c\t d", -2.25))
    failed = Translation("", -math.inf, -math.inf, (), (), 1, error="no memory")
    by_number = {0: found, 1: BLANK, 2: failed, 12: translation("d", -0.125)}
    lines = [line for number, one in by_number.items() for line in render_n_best(number, one)]
    assert lines[0] == "0 ||| a ||| b ||| -1.500000"
    written = [(0, "a ||| b", -1.5), (0, "", -2.0), (0, "c\t d", -2.25), (1, "", 0.0)]
    written += [(2, "", -math.inf), (12, "d", -0.125)]
    assert read(*lines) == [Entry(*one) for one in written]
    assert [str(entry) for entry in read(*lines)] == lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "LINE"),
        ("a", "LINE"),
        ("0 ||| a", "LINE"),
        ("x ||| a ||| -1", "LINE"),
        ("0 ||| a ||| b", "LINE"),
        ("-1 ||| a ||| -1", "LINE"),
        ("0 ||| a ||| nan", "LINE"),
        ("0 ||| c ||| -2", "line 0 "),
    ],
)
def test_a_line_of_another_form_or_out_of_order_is_named(line: str, message: str) -> None:
    with pytest.raises(DataError, match=f"list: line 2 .*{message}"):
        read("1 ||| a ||| -1", line)


def test_each_translation_stands_beside_its_source() -> None:
    entries = read("0 ||| a ||| -1", "1 ||| b ||| -1", "1 ||| B ||| -2")
    found = [(entry.text, line) for entry, line in with_sources(entries, ["zero", "one"], "source")]
    assert found == [("a", "zero"), ("b", "one"), ("B", "one")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((1, 2), "line 0 of source"),
        ((0, 2), "line 1 of source"),
        ((0, 1), "line 2 of source"),
        ((0, 1, 2, 3), "source .*3 lines, .*line 3"),
    ],
)
def test_a_list_of_other_lines_is_refused(lines: tuple[int, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(with_sources([Entry(line, "a", -1.0) for line in lines], ["x", "y", "z"], "source"))


@pytest.mark.parametrize(
    "features",
    [
        "F0= -3.25",
        "LM0= -1e-05 Phrase= -1 2.5 0 Penalty= 1e+06",
        "WordScores= -0.5 -1 ||| F0= -3 F1= 2",
        "F0= -inf F1= nan F2= +1",
    ],
)
def test_features_of_moses_and_marian_are_passed_over(features: str) -> None:
    lines = [f"0 ||| {text} {features} ||| -1" for text in ("a b |||", " |||", "|||")]
    assert read(*lines) == [Entry(0, "a b", -1.0), Entry(0, "", -1.0), Entry(0, "", -1.0)]
    assert next(read_n_best(lines[:1], "list", features=False)).text == f"a b ||| {features}"
    assert read("0 ||| 1 ||| x= y ||| -1") == [Entry(0, "1 ||| x= y", -1.0)]


@pytest.mark.parametrize("alignment", ["0-0 1-12", "0.75,0.2 0.0625,7.06278e-05", ""])
@pytest.mark.parametrize("features", ["F0= -3.25", "WordScores= -0.5 -1 ||| F0= -3 F1= 2"])
def test_alignments_of_marian_are_passed_over(alignment: str, features: str) -> None:
    lines = [f"0 ||| {text} ||| {alignment} ||| {features} ||| -1" for text in ("犬 ||| 1-1", "")]
    assert [entry.text for entry in read(*lines)] == ["犬 ||| 1-1", ""]
    assert read("0 ||| 3 ||| 1-1 ||| -1")[0].text == "3 ||| 1-1"  # Marian writes features, too


def order(entries: list[Entry], scores: dict[str, float], weight: float) -> list[tuple[str, float]]:
    """Rerank by the scores of texts, whose source is always "source"."""

    def score(pairs: Iterable[tuple[str, str]]) -> Iterator[Translation]:
        for source, text in pairs:
            assert source == "source"
            yield translation(text, scores[text])

    found = rerank([(entry, "source") for entry in entries], score, weight)
    return [(entry.text, entry.score) for entry in found]


ENTRIES = [Entry(0, "a", -1.0), Entry(0, "b", -2.0), Entry(0, "c", -5.0)]
ENTRIES += [Entry(2, "d", -1.0), Entry(2, "e", -3.0)]
SCORES = {"a": -4.0, "b": -1.0, "c": -2.5, "d": -2.0, "e": -2.0}


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (0.0, [("a", -1.0), ("b", -2.0), ("c", -5.0), ("d", -1.0), ("e", -3.0)]),
        # a: 0.75 * -1 + 0.25 * -4; b: 0.75 * -2 + 0.25 * -1; and so on.
        (0.25, [("a", -1.75), ("b", -1.75), ("c", -4.375), ("d", -1.25), ("e", -2.75)]),
        # Equal ones, d and e, stay as they were.
        (1.0, [("b", -1.0), ("c", -2.5), ("a", -4.0), ("d", -2.0), ("e", -2.0)]),
    ],
)
def test_a_line_s_translations_are_ordered_by_a_mean_of_both_scores(
    weight: float, expected: list[tuple[str, float]]
) -> None:
    assert order(ENTRIES, SCORES, weight) == expected


FAIRSEQ = """\
2026-11-30 06:21:36 | INFO | fairseq_cli.generate | loading model(s)
Namespace(beam=2, buffer_size=1)
| [en] dictionary: 618 types
S-1\tzwei @@ @-@
T-1\tzwei
H-1\t-0.25\ttwo @-@
D-1\t-0.25\ttwo-
P-1\t-0.1 -0.4
H-1\t-1e-2\t2
D-1\t-1e-2\t2
S-0\teins
H-0\t-inf\tone
D-0\t-inf\tone
Generate test with beam=2: BLEU4 = 100.00
""".splitlines()


MARIAN = ["0 ||| one ||| F0= -0.5 ||| -0.5", "0 |||  ||| F0= -1 ||| -1"]
IN_TOKENS = [line for line in FAIRSEQ if line[0] != "D"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["one", "", "a ||| b"], [(0, "one", 0.0), (1, "", 0.0), (2, "a ||| b", 0.0)]),
        (MARIAN, [(0, "one", -0.5), (0, "", -1.0)]),
        (FAIRSEQ, [(0, "one", -math.inf), (1, "two-", -0.25), (1, "2", -0.01)]),
        (IN_TOKENS, [(0, "one", -math.inf), (1, "two @-@", -0.25), (1, "2", -0.01)]),
    ],
    ids=["text", "marian", "fairseq", "fairseq without detokenised text"],
)
def test_others_lists_are_read(lines: list[str], expected: list[tuple[int, str, float]]) -> None:
    assert list(read_translations(lines, "list")) == [Entry(*one) for one in expected]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["-0.1\ta", "-0.2\tb"], "SCORE<TAB>TEXT"),
        (['{"line": 0, "text": "a"}'], "JSON"),
        (["a ||| 0-0", "b ||| 0-0"], "ALIGNMENT"),
        (["0 ||| a ||| -1"] * 100 + ["b"], "line 101"),
        (["0 ||| a ||| -1", "1 ||| b ||| nan"], "line 2"),
        (["0 ||| a", "1 ||| b ||| -1"], "line 1"),
        (["0|||a|||-1"], "line 1"),
        (["-0.3 ||| a"], "line 1"),
        ([*FAIRSEQ, "H-2\tthree"], "line 15"),
        ([*FAIRSEQ[:7], "D-1\t1.2.3\ttwo"], "line 8"),
    ],
)
def test_translations_of_another_form_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=f"list.*{message}"):
        list(read_translations(lines, "list"))
