"""Letters, words and full stops are known in every script."""

import re
import sys
import unicodedata

import pytest

from nmt.data import words


def test_marks_are_those_of_unicode() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    marks = {character for character in everything if unicodedata.category(character)[0] == "M"}
    assert set(re.findall(f"[{words.MARKS}]", everything)) == marks | {"\u200c", "\u200d"}


def test_modifiers_are_letters_and_stops_are_signs() -> None:
    assert {unicodedata.category(letter) for letter in words.MODIFIERS} == {"Lm"}
    assert {unicodedata.category(sign) for sign in words.STOPS + words.WIDE_STOPS} == {"Po"}


@pytest.mark.parametrize(
    "word", ["किताब", "ẹ̀kọ́", "می\u200cخواهم", "ක්\u200dරම", "faʻa", "памʼять", "e\u0301te\u0301"]
)
def test_a_word_is_one_whole(word: str) -> None:
    assert re.fullmatch(f"{words.LETTERS}+", word)
    assert words.unit_pattern().findall(word) == [word]
    assert all(map(words.is_in_word, word))


def test_signs_are_not_in_words() -> None:
    assert not any(map(words.is_in_word, " .'_-+\u200e"))
    assert words.is_mark("\u093f")
    assert not (words.is_mark("a") or words.is_mark(""))


STOPPED = ("Ναι;", "Ναι\u037e", "«Ναι»;", "Այո:", "ਹਾਂ|", "ਹਾਂ |", "አዎ፡፡", "አዎ::", "так...")
OPEN = ("yes;", "yes:", "a |", "አዎ፡", "a::", "བོད།", "так...:", "")


def test_typed_stops_depend_on_the_letter_before() -> None:
    assert [text for text in STOPPED if not words.ends_with_stop(text)] == []
    assert [text for text in OPEN if words.ends_with_stop(text)] == []
