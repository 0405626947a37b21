"""Lists of words: files of them, and where they are in a line."""

import pytest

from nmt.lexical.word_list import ListedWord, WordList, has_phrase


def terms(*sources: str) -> WordList:
    return WordList(ListedWord(source, (f"[{source}]",)) for source in sources)


@pytest.mark.parametrize(
    ("line", "known", "found"),
    [
        # Whole words, in any script.
        ("a cat, cats and bobcat", ["cat"], ["cat"]),
        ("चाय और चायवाला", ["चाय"], ["चाय"]),
        ("黒猫です", ["猫"], ["猫"]),
        ("use C++ or C#.", ["C++", "C#"], ["C++", "C#"]),
        # The longest first, none inside another, from left to right.
        ("New York Times", ["York", "New York", "York Times", "New"], ["New York"]),
        ("a b c", ["b c", "a b"], ["a b"]),
        # Case: only a term with a capital insists on it, and it comes first.
        ("Cat CAT cat", ["cat"], ["Cat", "CAT", "cat"]),
        ("STRASSE Straße", ["straße"], ["STRASSE", "Straße"]),
        # White space and accents, however they are encoded.
        ("hot \u00a0 dog", ["hot dog"], ["hot \u00a0 dog"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9"], ["cafe\u0301", "caf\u00e9"]),
    ],
)
def test_terms_are_found_as_whole_words(line: str, known: list[str], found: list[str]) -> None:
    assert [line[one.start : one.end] for one in terms(*known).find(line)] == found


def test_no_term_is_found_inside_what_stays_as_it_is() -> None:
    terms = WordList([ListedWord("cat", ("Katze",)), ListedWord("cat 5", ("Katze 5",))])
    line = "a {cat} b cat 5 cat"
    kept = [(2, 7), (14, 15)]
    assert [line[one.start : one.end] for one in terms.find(line, kept)] == ["cat 5", "cat"]
    assert [one.start for one in terms.find(line)] == [3, 10, 16]
    assert not terms.find("the cat 5 b", [(8, 11)])
    assert not terms.find("the cat", [(4, 7)])


def test_many_terms_with_one_first_word_are_found_by_lookup() -> None:
    many = terms(*(f"the {number} th" for number in range(100_000)), "the")
    assert [one.word.source for one in many.find("the 99999 th of the")] == ["the 99999 th", "the"]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("in C++ und", "C++", True),
        ("in C++en", "C++", False),
        ("ein .NET", ".NET", True),
        ("ein.NET", ".NET", False),
        ("ein Hund-Haus", "Hund", True),
        ("„Hund“", "„", True),
        # A capital where a sentence may begin.
        ("Hot Dog", "hot Dog", True),
        ("Ja. „Hot Dog“", "hot Dog", True),
        ("ein Hot Dog", "hot Dog", False),
    ],
)
def test_a_target_edged_by_a_sign_touches_no_word(text: str, target: str, expected: bool) -> None:
    assert has_phrase(text, target) == expected
