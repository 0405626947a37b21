"""The cleaning rules one by one, and what is told of what they take."""

from __future__ import annotations

import pytest

from nmt.data.cleaning import (
    EXAMPLES_PER_RULE,
    RATIO_FREE_CHARACTERS,
    RULES,
    Cleaner,
    RejectReport,
    check_keep,
)
from nmt.data.manifest import Settings


def cleaner(*, keep: tuple[str, ...] = (), max_ratio: float = 9.0) -> Cleaner:
    return Cleaner.of(
        Settings(src_lang="en", tgt_lang="de", keep=keep, max_ratio=max_ratio, max_length=4)
    )


@pytest.mark.parametrize(
    ("src", "tgt", "rule"),
    [
        ("A house.", "Ein Haus.", None),
        (None, "Ein Haus.", "encoding"),
        ("A house.", None, "encoding"),
        ("", "Ein Haus.", "empty"),
        ("A house.", " \t\u00a0\u2028", "empty"),
        ("A\thouse.", "Ein\tHaus.", None),
        ("A\x00house.", "Ein Haus.", "control"),
        ("A house.", "Ein\rHaus.", "control"),
        ("A house.", "Ein\x85Haus.", "control"),
        ("A\x7fhouse.", "Ein Haus.", "control"),
        ("A house.", "Ein H\ufffdus.", "control"),
        ("A\u2028house \u00a0\U0001f600", "Ein Haus.", None),
        ("Bravo!", "Bravo!", "identical"),
        (" Bravo!", "Bravo! ", "identical"),
        ("Bravo!", "bravo!", None),
        ("x" * 90, "y" * 10, None),  # 9 times as long, and no more
        ("x" * 91, "y" * 10, "ratio"),
        ("x" * 10, "y" * 91, "ratio"),
        ("x" * RATIO_FREE_CHARACTERS, "y", None),  # short pairs are not measured
        ("x" * (RATIO_FREE_CHARACTERS + 1), "y", "ratio"),
        ("x" * 60, "y" * 7 + " " * 53, None),  # 60 to 7 without the spaces
        ("x" * 60, "y" * 6 + " " * 54, "ratio"),  # 60 to 6 without the spaces
    ],
)
def test_text_is_judged_by_the_first_rule_that_fits(
    src: str | None, tgt: str | None, rule: str | None
) -> None:
    assert cleaner().judge_text(src, tgt) == rule


@pytest.mark.parametrize(
    ("src", "tgt", "rule"),
    [(4, 4, None), (5, 4, "too_long"), (4, 5, "too_long"), (0, 3, "empty"), (3, 0, "empty")],
)
def test_lengths_are_judged_with_the_limit_included(src: int, tgt: int, rule: str | None) -> None:
    assert cleaner().judge_lengths(src, tgt) == rule


@pytest.mark.parametrize(
    ("rule", "src", "tgt"),
    [("control", "a\x01", "b"), ("identical", "a", "a"), ("ratio", "x" * 99, "y")],
)
def test_a_rule_that_is_kept_rejects_nothing(rule: str, src: str, tgt: str) -> None:
    assert cleaner().judge_text(src, tgt) == rule
    assert cleaner(keep=(rule,)).judge_text(src, tgt) is None


def test_too_long_can_be_kept() -> None:
    assert cleaner(keep=("too_long",)).judge_lengths(999, 1) is None


def test_the_ratio_is_what_was_asked_for() -> None:
    pair = ("x" * 60, "y" * 20)
    assert cleaner(max_ratio=3.0).judge_text(*pair) is None
    assert cleaner(max_ratio=2.9).judge_text(*pair) == "ratio"


def test_unknown_rules_are_named_with_the_nearest() -> None:
    (problem,) = check_keep(["duplicates"])
    assert problem == "--keep duplicates: there is no such rule; did you mean 'duplicate'?"
    assert check_keep(["ratio", "too_long", "duplicate", "identical", "control"]) == []


@pytest.mark.parametrize("rule", ["encoding", "empty"])
def test_rules_without_which_there_is_nothing_to_learn_stay_on(rule: str) -> None:
    assert len(check_keep([rule])) == 1


def test_a_report_counts_all_and_shows_the_first_few() -> None:
    report = RejectReport()
    for line in range(1, 31):
        report.add("ratio", line=line, src="s" * line * 20, tgt="t")
    report.add("empty", line=31, src="", tgt="t")
    assert report.counts == {"empty": 1, "ratio": 30}
    assert list(report.counts) == [rule for rule in RULES if rule in ("empty", "ratio")]
    assert [example["line"] for example in report.examples["ratio"]] == [*range(1, 21)]
    assert len(report.examples["ratio"]) == EXAMPLES_PER_RULE
    assert report.examples["ratio"][0] == {"line": 1, "src": "s" * 20, "tgt": "t"}
    assert report.examples["ratio"][19]["src"] == "s" * 300 + "..."
