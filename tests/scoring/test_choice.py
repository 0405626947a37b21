"""What a student learns of a teacher's translations."""

import math

import pytest

from nmt.scoring.choice import Choice, Translated

REFERENCE = "Ein Hund läuft über die Wiese."
TEXTS = ["Ein Hund rennt.", "Ein Hund läuft über die Wiese", "Ein Hund läuft."]


def chosen(
    texts: list[str],
    *,
    keep: int,
    minimum: float = 0.0,
    by: str = "reference",
    reference: str = REFERENCE,
    scores: list[float] | None = None,
    tokenize: str = "13a",
) -> list[str]:
    line = Translated("A dog.", reference, texts, scores or [0.0] * len(texts))
    return Choice(by, keep, minimum, tokenize).of_line(line)


def test_the_translation_nearest_to_the_reference_is_chosen_not_the_likeliest() -> None:
    assert chosen(TEXTS, keep=1) == TEXTS[1:2]


def test_the_best_of_a_line_are_kept_in_their_order_and_each_must_be_near() -> None:
    assert chosen(TEXTS, keep=2, minimum=40) == TEXTS[1:]
    assert chosen(TEXTS, keep=2, minimum=50) == TEXTS[1:2]


def test_a_translation_that_is_empty_or_loops_is_left_out() -> None:
    assert chosen(["", "die " * 40], keep=4, minimum=35) == []


def test_words_are_those_of_the_language() -> None:
    # Without blanks, a sentence is one word of 13a, and all translations are equally far away.
    texts = ["他去了商店。", "我喜欢喝茶。"]
    assert chosen(texts, keep=1, tokenize="zh", reference="我喜欢喝水。") == texts[1:]


def test_a_score_chooses_and_needs_no_reference() -> None:
    scores = [-0.3, -0.1, -0.2]
    assert chosen(TEXTS, keep=2, by="score", minimum=-math.inf, scores=scores) == TEXTS[1:]
    assert chosen(TEXTS, keep=3, by="score", minimum=-0.1, scores=scores) == TEXTS[1:2]
    assert chosen(["", "a"], keep=1, by="score", minimum=-math.inf, scores=[2.0, 1.0]) == ["a"]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_agreement_chooses_what_is_nearest_to_the_others(order: list[int]) -> None:
    texts = ["A b c d e f", "A b c d x y", "u v c d e f"]
    asked = [texts[place] for place in order]
    assert chosen(asked, keep=1, by="agreement") == texts[:1]
    # The mean of its BLEU is 50.8, and that of the others 33.5.
    assert len(chosen(asked, keep=3, by="agreement", minimum=45)) == 1


def test_what_is_alone_agrees_with_nothing() -> None:
    assert chosen(["a"], keep=1, by="agreement") == ["a"]
    assert chosen(["a"], keep=1, by="agreement", minimum=1) == []


def test_each_line_has_its_own_choice() -> None:
    lines = [("a", "eins", ["zwei", "eins"]), ("b", "zwei", ["zwei", "eins"])]
    choice = Choice("reference", keep=1, minimum=35)
    assert choice.of_lines([Translated(*line, [0, 0]) for line in lines]) == [["eins"], ["zwei"]]
