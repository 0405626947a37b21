"""Lemmas, and terms in any form."""

import pytest

from nmt.lexical.lemmas import WORD, LineForms, TermUse, has_lemmas, lemma
from nmt.lexical.word_list import ListedWord

pytest.importorskip("simplemma", reason="needs the extra terms")


@pytest.mark.parametrize(
    ("word", "lang", "expected"),
    [
        ("Hunde", "de", "Hund"),
        ("dogs", "en-GB", "dog"),
        ("psima", "hr", "pas"),  # simplemma has one list for Croatian, Serbian and Bosnian
        ("Hunde", "tlh", "Hunde"),  # no such language
    ],
)
def test_a_word_has_the_lemma_of_its_language(word: str, lang: str, expected: str) -> None:
    assert lemma(word, lang) == expected


def test_languages_without_lemmas_are_known() -> None:
    lacking = [lang for lang in ("de", "fra_Latn", "no", "zh", "tlh") if not has_lemmas(lang)]
    assert lacking == ["zh", "tlh"]


@pytest.mark.parametrize(
    ("term", "is_there"),
    [
        ("Hund", True),
        ("kleiner Hund", True),
        ("Hund kleinen", False),  # the order counts
        ("und", False),  # whole words
        ("Katze", False),
    ],
)
def test_a_term_is_found_in_any_form(term: str, is_there: bool) -> None:
    assert LineForms.of("Er sieht einen kleinen Hund.", "de").has(term) == is_there


@pytest.mark.parametrize(
    "line", ["किताब मेज़ पर", "കേരളത്തിൽ മഴ", "می\u200cخواهم بروم", "maʻu l'eau a-b"]
)
def test_words_take_in_their_marks(line: str) -> None:
    assert WORD.findall(line) == line.split()
    assert not LineForms.of(line, "xx").has(line[:2])


@pytest.mark.parametrize(
    ("text", "lang", "is_placed"),
    [
        ("Die Katze schläft", None, True),
        ("Zwei Katzen schlafen", None, False),
        ("Zwei Katzen schlafen", "de", True),
        ("Zwei Kater schlafen", "de", True),  # the other target
        ("Zwei Hunde schlafen", "de", False),
    ],
)
def test_a_term_is_there_in_any_form_of_it(text: str, lang: str | None, is_placed: bool) -> None:
    use = TermUse.of(ListedWord("cat", ("Katze", "Kater")), text, lang)
    assert (use.source, use.target, use.is_placed) == ("cat", "Katze", is_placed)
