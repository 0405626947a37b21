"""The recipe of examples/terms: which terms a test set has, and which of them translations have."""

from pathlib import Path

import pytest
from prepare_job import write
from term_use import find, shares

from nmt.lexical import word_lexicon
from nmt.lexical.word_list import ListedWord, WordList

pytest.importorskip("simplemma", reason="needs the extra terms")


def test_terms_are_words_that_the_references_translate_in_one_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_lexicon, "_FREQUENT", 0)
    pairs = [("dog", "Hund"), ("Dogs", "Hunde"), ("dogs", "Hunden")] * 2
    pairs += [("house", "Haus"), ("house", "Heim")] * 2
    test = [("Dogs bark", "Hunde bellen"), ("dogs", "Hunden"), ("a house", "ein Haus")]
    test += [("my house", "mein Heim")]
    find(write(tmp_path, "train", pairs), write(tmp_path, "test", test), tmp_path)
    assert (tmp_path / "terms.tsv").read_text("utf-8") == "dogs\tHund\n"
    forms = (tmp_path / "forms.tsv").read_text("utf-8")
    assert forms == "source\ttarget\tform\ndogs\tHund\tHunde\tHunden\n"


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        ("Zwei Hunde bellen", "0.0 % | 100.0 % | 100.0 %"),
        ("Hund bellt", "100.0 % | 100.0 % | 0.0 %"),
        ("Zwei Katzen", "0.0 % | 0.0 % | 0.0 %"),
    ],
)
def test_terms_count_as_given_in_any_and_in_the_right_form(hypothesis: str, expected: str) -> None:
    terms = WordList([ListedWord("dogs", ("Hund",)), ListedWord("cats", ("Katze",))])
    # The second line's reference has no such word, so its term does not count.
    src, references = ["dogs bark", "cats sleep"], ["Hunde bellen", "sie schlafen"]
    assert shares(src, references, [hypothesis, "Katze"], terms) == expected
