"""Warnings: each names its problem, the file, count, first line and remedy; good text has none."""

import re

import pytest

from nmt.scoring.inputs import Text
from nmt.scoring.text_warnings import text_warnings, wmt14_hint

REFERENCE = Text("ref.de", ["Das ist ein Haus.", "Was nun?", "Guten Tag!", "10 - 4 @ 5", "AT&T; x"])
SOURCE = Text("src.en", ["This is a house.", "What now?", "Good day!", "10 - 4 @ 5", "AT&T; y"])
GOOD = ["Dies ist ein Haus.", "Was jetzt?", "Guten Tag!", "10 - 4 @ 5.", "Bei AT&T; x"]


def warnings(lines: list[str], *, tokenised: bool = False) -> list[str]:
    return list(text_warnings([Text("hyp.de", lines)], [REFERENCE], SOURCE, tokenised=tokenised))


def test_good_text_has_no_warnings() -> None:
    assert warnings(GOOD) == []
    # Blank on both sides.
    assert list(text_warnings([Text("hyp", ["", "Ja"])], [Text("ref", ["", "Jawohl"])])) == []


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ("ein Hau@@ s .", r".*\(@@\), line 2 "),
        ("▁ein ▁Haus", r".*\(▁\), line 2 "),
        ("wie geht&apos;s", r".*\(&apos;\), line 2 "),
        ("E @-@ Mail", r".*\(@-@\), line 2 "),
        (" ", ".*blank .*ref.de .*line 2 "),
    ],
)
def test_each_problem_of_lines_is_reported(bad: str, what: str) -> None:
    (warning,) = warnings([GOOD[0], bad, bad, *GOOD[3:]])
    assert re.match(f"hyp.de: 2 of 5 lines {what}", warning)


def test_tokens_are_not_reported_if_they_are_intended() -> None:
    tokens = ["E @-@ Mail &quot; .", *GOOD[1:]]
    assert len(warnings(tokens)) == 2
    assert warnings(tokens, tokenised=True) == []
    assert len(warnings(["Hau@@ s", *GOOD[1:]], tokenised=True)) == 1


def test_gaps_in_one_of_two_references_are_reported_as_such() -> None:
    full, gaps = Text("a.de", ["Ja", "Nein", ""]), Text("b.de", ["Ja", "", ""])
    found = text_warnings([Text("hyp.de", ["Ja!", "Nein!", "Gut!"])], [full, gaps])
    named = [re.findall(r"^(\w)\.de: 1 of 3 .* where (\w+)\.de .*line (\d)", one) for one in found]
    # Line 3 is lost in both, line 2 is in one.
    assert named == [[("a", "hyp", "3")], [("b", "hyp", "3")], [("b", "a", "2")]]


def test_a_hundred_lines_with_a_separate_full_stop_look_tokenised() -> None:
    def found(number: int) -> list[str]:
        lines = ["Das ist gut ."] * number + ["Gut."] * (200 - number)
        return list(text_warnings([Text("hyp", lines)], [Text("ref", ["Nein."] * 200)]))

    assert found(99) == []
    (warning,) = found(100)
    assert re.match("hyp: 100 of 200 .*tokenised, line 1 ", warning)


def test_a_copy_of_the_reference_is_reported() -> None:
    (warning,) = warnings(REFERENCE.lines)
    assert re.match(r"hyp\.de: 5 of 5 .*ref\.de, line 1 ", warning)
    copied = [*REFERENCE.lines, "", ""]  # blank lines do not count
    (warning,) = text_warnings([Text("hyp.de", copied)], [Text("ref.de", copied)])
    assert re.match(r"hyp\.de: 5 of 7 .*ref\.de", warning)


@pytest.mark.parametrize(
    ("written", "other", "example"),
    [
        ("L’eau d’ici, dit-il.", "L'eau d'ici, dit-on.", "’ for '"),
        ('Er sagt: "Ja"', "Er sagte: „Ja“", '" for „'),
        ("彼は“はい”と言った。", "彼は「はい」と言いました。", "“ for 「"),
        ("הוא בצה״ל", 'היא בצה"ל', '״ for "'),
        ("Комп’ютер", "Компʼютер є", "’ for ʼ"),
    ],
)
def test_quotes_of_another_kind_are_reported(written: str, other: str, example: str) -> None:
    lines = ["a", "'b'", written, "d", written]
    reference = Text("ref", ["A", "'b'", other, "D", other])
    (warning,) = text_warnings([Text("hyp", lines)], [reference])
    assert re.match(rf"hyp: 2 of 5 lines .*ref \({re.escape(example)}\), line 3 ", warning)
    few = Text("hyp", ["a", "'b'", written, "d", other[:-1]])
    assert list(text_warnings([few], [reference])) == []  # half of them


def test_lines_that_come_late_are_reported() -> None:
    reference = [f"Zeile {number} mit der Zahl {number}." for number in range(1, 31)]
    late = [*reference[:9], "Ein Einschub", *reference[9:-1]]
    early = [*reference[:9], *reference[10:], "Noch eine"]
    for lines, when in ((late, "1 line later"), (early, "1 line earlier")):
        (warning,) = text_warnings([Text("hyp", lines)], [Text("ref", reference)])
        assert re.match(rf"hyp: .* {when} than those of ref from line 1[01] on", warning)


UNSPACED = {
    "zh": ["红色的门打开着，请进来看看。", "火车中午十二点离开了北京。", "IBM 在北京。"],
    "ja": ["赤いドアが開いています。", "トムは昨日 Tom Sawyer を読みました。"],
    "th": ["ฉันไปตลาดวันนี้กับแม่", "รถไฟออกตอนเที่ยงวัน เขากินข้าวเช้าทุกวัน"],
    "my": ["ကျွန်တော် မနက်တိုင်း ရေအေးသောက်သည်။"],
    "bo": ["ང་རང་ཁྲོམ་ལ་འགྲོ་གི་ཡིན།"],
}
SPACED = {
    "segmented Chinese": ["红色 的 门 打开 着 ， 请 进来 看看 。"],
    "segmented Thai": ["ฉัน ไป ตลาด วันนี้ กับ แม่"],
    "Korean": ["나는 오늘 어머니와 시장에 갑니다."],
    "German": ["Donaudampfschifffahrtsgesellschaftskapitän!"],
    "a Chinese name": ["The Beijing (北京市朝阳区) office is open today."],
    "a third": ["火车中午十二点离开了北京。", "Yes.", "No."],
    "signs": ["。。。。。。", "12345678", ""],
}


@pytest.mark.parametrize("lines", UNSPACED.values(), ids=UNSPACED)
def test_text_without_spaces_is_reported(lines: list[str]) -> None:
    text = Text("ref", lines)
    assert list(text_warnings([], [text])) == []
    (warning,) = text_warnings([], [text], spaced=["BLEU"])
    assert re.match(r"ref: \d of \d .*BLEU.*line 1 .*--tokenize .*--lang", warning)
    (warning,) = text_warnings([], [text], spaced=["TER"])
    assert "--tokenize" not in warning


@pytest.mark.parametrize("lines", SPACED.values(), ids=SPACED)
def test_text_with_spaces_is_not_reported(lines: list[str]) -> None:
    assert list(text_warnings([], [Text("ref", lines)], spaced=["BLEU"])) == []


def test_untranslated_text_is_reported() -> None:
    (warning,) = warnings([GOOD[0], *SOURCE.lines[1:4], GOOD[4]])
    assert re.match(r"hyp\.de: 3 of 5 .*src\.en, line 2 ", warning)
    (warning,) = text_warnings([Text("hyp", GOOD)], [Text("ref", SOURCE.lines)], SOURCE)
    assert re.match(r"ref: 5 of 5 .*src\.en, line 1 ", warning)


def test_the_filtered_newstest2014_is_reported() -> None:
    reference, hypothesis = (Text(name, [name] * 2737) for name in ("ref.de", "hyp.de"))
    (warning,) = text_warnings([hypothesis], [reference])
    assert re.match(r"ref\.de .*2,737 .*3,003 .*wmt14/full", warning)
    assert list(text_warnings([Text("h", ["h"] * 3003)], [Text("r", ["r"] * 3003)])) == []
    assert wmt14_hint(3003, 3000) == ""


@pytest.mark.parametrize(
    ("written", "nfc"),
    [
        ("\u0958\u0932\u092e \u092f\u0939\u093e\u0901", "\u0915\u093c\u0932\u092e \u0935\u0939"),
        ("\u0a33\u0a3e \u0a39\u0a48", "\u0a32\u0a3c\u0a3e \u0a39\u0a48"),
        ("de\u0301ja\u0300 vu", "déjà lu"),
    ],
)
def test_letters_that_nfc_takes_apart_or_joins_are_reported(written: str, nfc: str) -> None:
    keyboard, model = Text("keyboard", ["a", written]), Text("model", ["a", nfc])
    for sides in ((keyboard, model), (model, keyboard)):
        (found,) = (one for one in text_warnings([sides[0]], [sides[1]]) if "NFC" in one)
        assert re.match(r"keyboard: 1 of 2 .*model .* line 2 ", found)
    assert not any("NFC" in one for one in text_warnings([keyboard], [Text("other", ["b", "c"])]))
