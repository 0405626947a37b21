"""What is taken out of a line before its translation: its text, what stays, and how it returns."""

import pickle
from dataclasses import replace

import pytest

from nmt.markup.breaks import MarkedLines
from nmt.markup.text_units import Link
from nmt.translate.output import Translation
from nmt.translate.taken_out import restore_lost_signs, take_out


def known(sign: str) -> bool:
    return sign != "😀"


def links_of(source: str, translation: str, pairs: str) -> list[Link]:
    """Return the links of words of the source to words of the translation: "cat-Katze a-eine"."""
    links = []
    for one, other in (pair.split("-") for pair in pairs.split()):
        src, tgt = source.index(one), translation.index(other)
        links.append((src, src + len(one), tgt, tgt + len(other)))
    return links


@pytest.mark.parametrize(
    ("line", "text", "kept", "translation", "pairs", "expected"),
    [
        ("a <b>red</b> cat, {name}", "a red cat, {name}", "{name}", "{name}, un chat rouge",
         "red-rouge cat-chat {name}-{name}", "{name}, un chat <b>rouge</b>"),
        ("一只<b>红色</b>的猫", "一只红色的猫", "", "кот красный",
         "红色-красный 猫-кот", "кот <b>красный</b>"),
        ("a <b>cat</b> 😀<br>5 &lt; 6 dogs", "a cat \n5 < 6 dogs", "5 6", "eine Katze\n5 < 6 Hunde",
         "cat-Katze dogs-Hunde", "eine <b>Katze</b> 😀<br>5 &lt; 6 Hunde"),
        ("{n, plural, one {a} other {b}}", "", "", "", "", "{n, plural, one {a} other {b}}"),
    ],
)  # fmt: skip
def test_tags_are_put_back_where_their_words_go(
    line: str, text: str, kept: str, translation: str, pairs: str, expected: str
) -> None:
    taken = take_out(known, None, MarkedLines.of(line, "html"))
    assert taken.text == text
    assert [text[start:end] for start, end in taken.protected] == kept.split()
    assert taken.restore is not None
    assert taken.restore(translation, links_of(text, translation, pairs), []) == expected


def test_only_signs_that_the_model_does_not_know_are_taken_out() -> None:
    taken = take_out(known, None, "кот 😀 и € 5")
    assert (taken.text, taken.protected) == ("кот  и € 5", ())
    assert taken.restore is not None
    links = links_of(taken.text, "a cat and € 5", "кот-cat и-and")
    assert taken.restore("a cat and € 5", links, []) == "a cat 😀 and € 5"
    for line in ("a cat", "кот и € 5", "😀"):  # nothing, known ones, and no word beside it
        assert take_out(known, None, line).restore is None
        assert take_out(known, None, line).text == line


def test_signs_that_a_translation_has_lost_are_put_back() -> None:
    def restored(line: str, *texts: str) -> str | None:
        """Put the signs of a line back into the first of these; None: none was lost."""
        first, *others = (Translation(text, 0.0, 0.0, (), (), 1) for text in texts)
        restore = restore_lost_signs(line, replace(first, others=tuple(others)))
        return restore and restore(first.text, links_of(line, first.text, "кот-cat"), [])

    assert restored("кот ✓", "a cat") == "a cat ✓"
    assert restored("кот ✓", "a cat ✓") is None
    assert restored("кот ✓", "a cat ✓", "cat") == "a cat ✓"  # the second best has lost it
    assert restored("кот", "a cat") is None


def test_lines_with_tags_and_units_are_taken_out_alike() -> None:
    line = "a <b>cat</b> 😀"
    assert take_out(known, None, line).text == "a <b>cat</b> "
    assert take_out(known, "html", line).text == "a cat "
    assert take_out(known, "html", MarkedLines.of(line, "html")).text == "a cat "


@pytest.mark.parametrize("line", ["a <b>red</b> cat<br>😀 {name}", "<b>" * 3_000 + "a cat"])
def test_a_parsed_unit_may_go_to_another_process(line: str) -> None:
    here = MarkedLines.of(line, "html")
    there = pickle.loads(pickle.dumps(here))  # also if its elements are deep inside each other
    one, other = (take_out(known, None, marked) for marked in (here, there))
    assert (one.text, one.protected) == (other.text, other.protected)
    assert one.restore is not None and other.restore is not None
    assert one.restore(one.text, [], []) == other.restore(other.text, [], [])
