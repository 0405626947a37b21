"""Token spans refer to the text as it was given, however a vocabulary spells it."""

from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.lexical.token_offsets import token_offsets

LINES = ["die Größe über alles", "Tiếng Việt ậ", "ᾧ Ἄνθρωπος", "한국어 좋다", "हिन्दी"]
LINES += ["e\u0323\u0301 \u0623\u064e"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn_vocabulary(LINES, vocab_size=340)


@pytest.mark.parametrize("line", LINES)
def test_spans_of_decomposed_text_cover_the_same_letters(vocabulary: Vocabulary, line: str) -> None:
    composed, decomposed = normalize("NFC", line), normalize("NFD", line)
    tokens = vocabulary.tokens(vocabulary.encode([composed])[0])
    assert vocabulary.tokens(vocabulary.encode([decomposed])[0]) == tokens
    spans = token_offsets(decomposed, tokens)
    assert [normalize("NFC", decomposed[first:end]) for first, end in spans] == [
        composed[first:end] for first, end in token_offsets(composed, tokens)
    ]


@pytest.mark.parametrize(
    ("text", "tokens", "spans"),
    [
        ("a u\u0308ber b", ["▁a", "▁ü", "ber", "▁b"], [(0, 1), (2, 4), (4, 7), (8, 9)]),
        (
            "a\u0301\u0323x",
            ["▁ạ", "\u0301", "x"],  # marks in another order
            [(0, 3), (3, 3), (3, 4)],
        ),
        ("\u0958x", ["▁\u0915", "\u093c", "x"], [(0, 1), (1, 1), (1, 2)]),  # decomposed by NFC
        ("ﬁx u\u0308x", ["▁fix", "▁üx"], [(0, 2), (3, 6)]),  # as NFKC has it
        ("½ … x", ["▁1", "\u2044", "2", "▁...", "▁x"], [(0, 1), (1, 1), (1, 1), (2, 3), (4, 5)]),
        ("Xu\u0308y z", ["▁xü", "y", "▁z"], [(0, 3), (3, 4), (5, 6)]),  # estimated: another case
    ],
)
def test_spans_by_hand(text: str, tokens: list[str], spans: list[tuple[int, int]]) -> None:
    assert token_offsets(text, tokens) == spans


@settings(deadline=None)
@given(st.text(st.sampled_from("aeou n\u0301\u0302\u0308\u0316\u0323ü한\u1112\u1161\u11ab")))
def test_spans_of_any_text_ascend_and_leave_nothing_out(vocabulary: Vocabulary, text: str) -> None:
    spans = token_offsets(text, vocabulary.tokens(vocabulary.encode([text])[0]))
    covered = {at for first, end in spans for at in range(first, end)}
    assert covered >= {at for at, one in enumerate(text) if one != " "}
    assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(spans))
