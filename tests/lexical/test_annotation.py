"""Annotations of terms among the ids of a source."""

import math

import pytest

from nmt.data.vocabulary import ANNOTATION, Vocabulary, learn_vocabulary
from nmt.errors import DataError
from nmt.lexical.annotation import AnnotatedIds, Annotation, annotate
from nmt.lexical.token_offsets import token_offsets

LINE = "Two dogs bark, and a cat sleeps."
WORDS = ["Hund", "Katze", "und"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    text = [LINE, *WORDS] * 5
    return learn_vocabulary(text, vocab_size=320, controls=ANNOTATION)


def annotated(
    vocabulary: Vocabulary, terms: dict[str, str], *, line: str = LINE, most: float = math.inf
) -> AnnotatedIds:
    """Annotate the words of a line; terms: words and their translations."""
    (ids,) = vocabulary.encode([line])
    uses = [Annotation(line.index(one), line.index(one) + len(one), terms[one]) for one in terms]
    return annotate(vocabulary, ids, token_offsets(line, vocabulary.tokens(ids)), uses, most=most)


def spelt(vocabulary: Vocabulary, found: AnnotatedIds) -> str:
    tokens = vocabulary.tokens(found.ids)
    return "".join(f" {t} " if t in ANNOTATION else t for t in tokens).replace("\u2581", " ")


def test_the_words_of_a_term_are_followed_by_its_translation(vocabulary: Vocabulary) -> None:
    found = annotated(vocabulary, {"a cat": "Katze", "dogs": "Hund"})
    expected = "Two <term> dogs <as> Hund </term> bark, and <term> a cat <as> Katze </term> sleeps."
    assert spelt(vocabulary, found).split() == expected.split()
    assert found.used == [0, 1]


def test_what_does_not_fit_is_left_out(vocabulary: Vocabulary) -> None:
    (plain,) = vocabulary.encode([LINE])
    (target,) = vocabulary.encode(["Hund"])
    size = len(plain) + len(target) + len(ANNOTATION)
    terms = {"dogs": "Hund", "cat": "Katze"}
    assert annotated(vocabulary, terms, most=size).used == [0]
    none = annotated(vocabulary, terms, most=size - 1)
    assert (none.ids, none.used) == (plain, []) or none.used == [1]


def test_terms_do_not_overlap_and_have_a_translation(vocabulary: Vocabulary) -> None:
    assert annotated(vocabulary, {"a cat": "Katze", "cat": "Hund"}).used == [0]
    assert annotated(vocabulary, {"cat": "", "dogs": " "}).used == []


def test_a_term_of_which_a_part_is_elsewhere_is_left_out(vocabulary: Vocabulary) -> None:
    (ids,) = vocabulary.encode([LINE])
    spans = token_offsets(LINE, vocabulary.tokens(ids))
    start = LINE.index("dogs")
    cut = next(at for at, span in enumerate(spans) if span[0] >= start + 5)
    uses = [Annotation(start, start + len("dogs bark"), "Hund")]
    for part in (slice(0, cut), slice(cut, None)):
        assert annotate(vocabulary, ids[part], spans[part], uses).used == []
    assert annotate(vocabulary, ids, spans, uses).used == [0]


def test_text_that_looks_like_a_marker_is_text(vocabulary: Vocabulary) -> None:
    (ids,) = vocabulary.encode(["<term> dogs <as> Hund </term>"])
    assert not {*vocabulary.control_ids(ANNOTATION)} & {*ids}


def test_a_vocabulary_without_markers_is_refused() -> None:
    plain = learn_vocabulary([LINE] * 5, vocab_size=300)
    with pytest.raises(DataError, match="piece '<term>'"):
        annotated(plain, {"cat": "Katze"})
