"""The cleaning rules one by one."""

import re
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.corpus import Encoding
from nmt.errors import UsageError
from nmt.prepare.block import KEPT, Block, Pairs, Verdicts, decode_side
from nmt.prepare.characters import plain_classes
from nmt.prepare.cleaning_options import (
    ALWAYS,
    OVERLAP_FREE_LETTERS,
    RATIO_FREE_CHARACTERS,
    RULES,
    CleaningOptions,
)
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.filters import RULE_OF, TEXT_FILTERS, TOKEN_FILTERS, Filters, token_verdicts

UTF8 = Encoding.find("utf-8")
HELD_OUT = "This very sentence is one of the test set."
HELD_OUT_TGT = "Genau dieser Satz steht im Test: 1½ Straßen!"
# Letters count, spaces do not, and a Chinese letter is three: 30 and 29, 30 and 27.
LONG, SHORT, WIDE, NARROW = "a b" * 15, "a b" * 14 + "c", "你" * 10 + "。", "你" * 9 + "。" * 9


def filters(**values: object) -> Filters:
    cleaning = CleaningOptions(max_length=4, **values)  # type: ignore[arg-type]
    src = OverlapKeys.of([HELD_OUT, "Short one.", LONG, SHORT, WIDE, NARROW])
    return Filters(cleaning=cleaning, held_out=(src, OverlapKeys.of([HELD_OUT_TGT, "Kurz."])))


def names(verdicts: Verdicts) -> list[str | None]:
    return [None if code == KEPT else RULE_OF[code] for code in verdicts.tolist()]


def judge(
    src: str | bytes, tgt: str | bytes, by: Filters | None = None, *, langs: str = "en de"
) -> str | None:
    """Return the verdict on a pair that stands between two good ones."""
    raw = [side if isinstance(side, bytes) else side.encode() for side in (src, tgt)]
    one, two = langs.split()
    sides = b"good\n" + raw[0] + b"\nfine\n", b"gut\n" + raw[1] + b"\nrecht\n"
    block = Block(0, 5, 3, *sides, UTF8, langs=(one, two))
    first, verdict, last = names((by or filters()).judge_text(Pairs.decode(block)))
    assert langs != "en de" or (first, last) == (None, None)
    return verdict


@pytest.mark.parametrize(
    ("src", "tgt", "rule"),
    [
        ("A house.", "Ein Haus.", None),
        (b"caf\xe9", "Ein Haus.", "encoding"),
        ("A house.", b"\xff", "encoding"),
        ("", "Ein Haus.", "empty"),
        ("A house.", " \t\u00a0\u2028", "empty"),
        ("A\thouse.", "Ein\tHaus.", None),
        ("A\x00house.", "Ein Haus.", "control"),
        ("A house.", "Ein\rHaus.", "control"),
        ("A house.", "Ein H\ufffdus.", "control"),
        ("A\u2028house \u00a0\U0001f600", "Ein Haus.", None),
        ("<range>", "Ein Haus.", "markup"),
        ("A house.", " <seg> </seg>", "markup"),
        ("<title>A house.</title>", "Ein <b>Haus</b>.", None),
        ("< a", "<3 >", "symbols"),
        ("Bravo!", "Bravo!", "identical"),
        (" Bravo!", "Bravo! ", "identical"),
        ("Bravo!", "bravo!", None),
        ("Zürich 서울", unicodedata.normalize("NFD", "Zürich 서울"), "identical"),
        ("Zürich 서울", unicodedata.normalize("NFD", "Zurich 서울"), None),
        ("x" * 90, "y" * 10, None),  # 9 times as long, and no more
        ("x" * 91, "y" * 10, "ratio"),
        ("x" * RATIO_FREE_CHARACTERS, "y", None),  # short pairs are not measured
        ("x" * (RATIO_FREE_CHARACTERS + 1), "y", "ratio"),
        ("x" * 60, "y" * 7 + " " * 53, None),  # 60 to 7 without the spaces
        ("x" * 60, "y " * 6, "ratio"),  # 60 to 6 without the spaces
        ("ab 12", "ab 1.", None),  # half are no letters, and no more
        ("ab 123", "ab", "symbols"),
        ("e\u0301e\u0301", "ab", None),  # an accent belongs to its letter
        ("Привет", "Hallo", "script"),
        ("hello", "дом Haus", None),  # 3 of 7 letters
        ("hello", "дома Haus", None),  # 4 of 8
        ("hello", "домов Haus", "script"),  # 5 of 9
        (HELD_OUT, "Dieser Satz ist aus dem Test.", "overlap"),
        ("this is VERY same sentence one of the test-set", "other letters' order: no", None),
        ("THIS VERY 'SENTENCE', is\u00a0one  of the test-set", "Etwas anderes.", "overlap"),
        ("Ｔhis very sentence is one of the test set", "Etwas anderes.", "overlap"),
        ("This is another sentence than any one there.", HELD_OUT, None),  # on the other side
        ("Something else.", "GENAU DIESER SATZ STEHT IM TEST – 11⁄2 STRASSEN", "overlap"),
        ("This very sentence is one of the test sets.", "Etwas anderes.", None),
        ("Short one.", "Kurz.", None),  # which is in valid, and too short to matter
        (LONG, "etwas", "overlap"),
        (SHORT, "etwas", None),
    ],
)
def test_the_first_rule_that_fits(src: str | bytes, tgt: str | bytes, rule: str | None) -> None:
    assert judge(src, tgt) == rule
    if rule not in (None, "encoding", "empty"):  # these two cannot be switched off
        assert judge(src, tgt, filters(keep=(rule,))) is None


@pytest.mark.parametrize(
    ("src", "tgt", "langs", "rule"),
    [
        ("hello", "Привет", "en ru", None),
        ("Привет", "hello", "en ru", "script"),
        ("Привет", "你好", "tlh xx", None),  # of which we know no script
        ("hello", "Оʻзбек тили", "en uz", None),
        ("hello", "Oʻzbek tili", "en uzn_Cyrl", "script"),
        ("hello", "Türkçe değil: татарча", "en tt", None),
        ("hello", "татарча", "en tr", "script"),
        ("hello", "مەھكىمە", "en tt", "script"),
        # A letter of Chinese counts three times.
        ("No longer maintained", "中文版已不再维护 since version", "en zh", None),  # 12 of 36
        ("中文", "in China", "zh en", None),
        # Words that stand on both sides do not count.
        ("Install PostgreSQL and Kubernetes.", "安装 PostgreSQL 和 Kubernetes。", "en zh", None),
        ("Install PostgreSQL and Kubernetes.", "ติดตั้ง PostgreSQL กับ Kubernetes", "en th", None),
        ("安装 PostgreSQL 和 Kubernetes。", "Install PostgreSQL and Kubernetes.", "zh en", None),
        ("Delete %(verbose_name_plural)s", "Удалить %(verbose_name_plural)s", "en ru", None),
        ("Install Caf\u00e9bar.", "ጫን Cafe\u0301bar", "en am", None),
        ("他住在北京市朝阳区。", "He lives in 北京市朝阳区.", "zh en", None),
        ("Install PostgreSQL", "安装 Kubernetes", "en zh", "script"),  # another word
        # A copy is no translation.
        ("The river and the old house.", "The old house and the river.", "en am", "script"),
        (WIDE, "etwas", "zh de", "overlap"),
        (NARROW, "etwas", "zh de", None),
    ],
)
def test_a_language_has_its_own_letters(src: str, tgt: str, langs: str, rule: str | None) -> None:
    assert judge(src, tgt, langs=langs) == rule


@given(st.text(max_size=60), st.text(max_size=60))
def test_overlap_is_what_unicode_calls_same_letters_marks_and_numbers(one: str, other: str) -> None:
    def key(line: str) -> str:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", line).casefold())
        decomposed = unicodedata.normalize("NFKD", folded)
        return "".join(c for c in decomposed if unicodedata.category(c)[0] in "LMN")

    padding = "a" * OVERLAP_FREE_LETTERS
    variants = [one, other, one.upper(), one.swapcase(), unicodedata.normalize("NFKD", one)]
    sides = [
        decode_side((padding + line).encode(), UTF8, plain_classes(), number=2, lines=1)
        for line in (text.replace("\n", "").replace("\r", "") for text in variants)
    ]
    for side in sides[1:]:
        same = key(side.lines[0]) == key(sides[0].lines[0])
        assert OverlapKeys.of(sides[0].lines).found_in(side).tolist() == [same]


def test_lengths_are_judged_with_the_limits_included() -> None:
    table = [
        (4, 4, None),
        (5, 4, "too_long"),
        (4, 5, "too_long"),
        (0, 3, "empty"),
        (3, 0, "empty"),
        (0, 9, "empty"),
        (2, 4, None),
        (1, 4, "too_short"),
        (4, 1, "too_short"),
        (1, 5, "too_short"),
    ]
    src, tgt, rules = zip(*table, strict=True)
    lengths = np.array(src, np.int32), np.array(tgt, np.int32)
    cleaning = CleaningOptions(max_length=4, min_length=2)
    assert names(token_verdicts(*lengths, cleaning)) == list(rules)
    cleaning = CleaningOptions(max_length=4, min_length=2, keep=("too_long", "too_short"))
    assert set(names(token_verdicts(*lengths, cleaning))) == {None, "empty"}


def test_bounds_are_what_was_asked_for() -> None:
    assert judge("x" * 60, "y" * 20, filters(max_ratio=3.0)) is None
    assert judge("x" * 60, "y" * 20, filters(max_ratio=2.9)) == "ratio"
    assert judge("ab 123", "ab", filters(max_symbols=0.6)) is None
    assert judge("ab 123", "ab", filters(max_symbols=0.59)) == "symbols"


@pytest.mark.parametrize(
    ("letters", "signs", "rule"),
    [("青铜臼", "16-17。", None), ("冬に", "12345。", None), ("숲", "1-2。", "symbols")],
)
def test_signs_may_be_as_many_as_a_line_has_letters_and_wide_ones_count_three(
    letters: str, signs: str, rule: str | None
) -> None:
    judged = judge("in the 16th century", letters + signs, filters(keep=("script",)))
    assert judged == rule


def test_the_options_of_cleaning_are_checked_together() -> None:
    with pytest.raises(UsageError) as caught:
        bounds: dict[str, Any] = {"min_length": 0, "max_length": -1, "max_ratio": 0.5}
        keep = ("duplicates", "ratio", "empty")
        CleaningOptions(**bounds, max_symbols=50, duplicates_by="target", keep=keep)
    options = re.findall(r"--([a-z-]+ [^ :]+):", str(caught.value))
    assert options == ["min-length 0", "max-ratio 0.5", "max-symbols 50", "duplicates-by target",
                       "keep duplicates", "keep empty", "max-length -1"]  # fmt: skip
    CleaningOptions(keep=tuple(rule for rule in RULES if rule not in ALWAYS))
    for values in ({"duplicates_by": "source"}, {"duplicates": "near"}):
        with pytest.raises(UsageError, match="--keep duplicate: --duplicates"):
            CleaningOptions(keep=("duplicate",), **values)  # type: ignore[arg-type]


def test_each_rule_has_its_function_in_the_order_of_the_rules() -> None:
    assert [rule for rule in RULES if rule in TEXT_FILTERS] == list(TEXT_FILTERS)
    by_order = {"duplicate", "near_duplicate"}  # found when the blocks are back in their order
    assert RULES.keys() == {*TEXT_FILTERS, *TOKEN_FILTERS} | by_order
