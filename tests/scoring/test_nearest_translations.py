"""What a student learns of a teacher's translations."""

from nmt.scoring.nearest_translations import NearestTranslations, Translated

REFERENCE = "Ein Hund läuft über die Wiese."
TEXTS = ["Ein Hund rennt.", "Ein Hund läuft über die Wiese", "Ein Hund läuft."]


def test_the_translation_nearest_to_the_reference_is_chosen_not_the_likeliest() -> None:
    assert NearestTranslations(keep=1, min_chrf=0).of_line(TEXTS, REFERENCE) == TEXTS[1:2]


def test_the_best_of_a_line_are_kept_in_their_order_and_each_must_be_near() -> None:
    assert NearestTranslations(keep=2, min_chrf=40).of_line(TEXTS, REFERENCE) == TEXTS[1:]
    assert NearestTranslations(keep=2, min_chrf=50).of_line(TEXTS, REFERENCE) == TEXTS[1:2]


def test_a_translation_that_is_empty_or_loops_is_left_out() -> None:
    assert NearestTranslations(keep=4, min_chrf=35).of_line(["", "die " * 40], REFERENCE) == []


def test_words_are_those_of_the_language() -> None:
    # Without blanks, a sentence is one word of 13a, and all translations are equally far away.
    texts = ["他去了商店。", "我喜欢喝茶。"]
    nearest = NearestTranslations(keep=1, min_chrf=0, tokenize="zh")
    assert nearest.of_line(texts, "我喜欢喝水。") == texts[1:]


def test_each_line_has_its_own_choice() -> None:
    lines = [("a", "eins", ["zwei", "eins"]), ("b", "zwei", ["zwei", "eins"])]
    nearest = NearestTranslations(keep=1, min_chrf=35)
    assert nearest.of_lines([Translated(*line) for line in lines]) == [["eins"], ["zwei"]]
