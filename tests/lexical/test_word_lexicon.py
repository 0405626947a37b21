"""Words that translate each other, found in pairs of lines."""

import pytest

from nmt.lexical import word_lexicon
from nmt.lexical.word_lexicon import WordLexicon, learn_words

pytest.importorskip("simplemma", reason="needs the extra terms")

PAIRS = [
    ("the dog sleeps", "der Hund schläft"),
    ("the dogs eat", "die Hunde fressen"),
    ("the cat sleeps", "die Katze schläft"),
    ("the cats eat 7 mice", "die Katzen fressen 7 Mäuse"),
    ("a mouse eats", "eine Maus frisst"),
    ("a dog sees a cat", "ein Hund sieht eine Katze"),
    ("a cat sees 7 dogs", "eine Katze sieht 7 Hunde"),
    ("the mice sleep", "die Mäuse schlafen"),
]


@pytest.fixture
def lexicon(monkeypatch: pytest.MonkeyPatch) -> WordLexicon:
    """The lexicon of the pairs, without articles: of each side one word is left out."""
    monkeypatch.setattr(word_lexicon, "_FREQUENT", 1)
    return learn_words(PAIRS, ("en", "de"))


def linked(lexicon: WordLexicon, src: str, tgt: str) -> list[tuple[str, str, str]]:
    return [
        (src[slice(*src_span)], tgt[slice(*tgt_span)], lemma)
        for src_span, tgt_span, lemma in lexicon.links(src, tgt)
    ]


def test_words_in_any_form_are_linked_with_the_lemma_of_the_target(lexicon: WordLexicon) -> None:
    # No pair has these two in a line.
    found = linked(lexicon, "My dogs, and mice!", "Meine Mäuse und Hunde!")
    assert found == [("dogs", "Hunde", "Hund"), ("mice", "Mäuse", "Maus")]


def test_a_word_that_comes_twice_or_has_no_letter_is_not_linked(lexicon: WordLexicon) -> None:
    src, tgt = "7 dogs see a dog and a cat", "7 Hunde sehen einen Hund und eine Katze"
    assert linked(lexicon, src, tgt)[-1:] == [("cat", "Katze", "Katze")]
    assert not {"dogs", "dog", "7"} & {word for word, _, _ in linked(lexicon, src, tgt)}


def test_without_lemmas_each_form_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_lexicon, "_FREQUENT", 0)
    pairs = [("qaH toH", "nugh 'ej"), ("qaH", "nugh"), ("toH", "'ej"), ("qaHmey", "nughmey")] * 2
    lexicon = learn_words(pairs, ("tlh", "xx"))
    assert linked(lexicon, "qaH", "nugh") == [("qaH", "nugh", "nugh")]
    assert linked(lexicon, "qaHmey", "nugh") == []


def test_of_two_words_with_the_same_best_translation_the_better_one_is_linked() -> None:
    scores = {"a": {"x": 0.5}, "b": {"x": 0.6, "y": 0.1}, "c": {"x": 0.4}}
    words = {word: word for word in "abcxy"}
    lexicon = WordLexicon(words, words, scores)
    assert linked(lexicon, "a b c", "x y") == [("b", "x", "x")]
    assert linked(lexicon, "a b c", "y") == [("b", "y", "y")]
    assert linked(lexicon, "c a", "y x") == [("a", "x", "x")]
