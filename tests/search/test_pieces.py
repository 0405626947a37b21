"""Over-long sources are cut where it hurts least, and nothing is lost at the cuts."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.vocabulary import Vocabulary
from nmt.search.pieces import join_pieces, split_ids


class WrittenVocabulary:
    """Only what cutting looks at: the token of an id, which is its place in a list."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens

    def tokens(self, ids: list[int]) -> list[str]:
        return [self._tokens[i] for i in ids]


def cut(text: str, max_tokens: int) -> list[tuple[str, str]]:
    """Pieces of a text whose tokens are parted by spaces, each with what stands behind it."""
    tokens = text.split()
    vocabulary = WrittenVocabulary(tokens)
    pieces = split_ids(cast(Vocabulary, vocabulary), list(range(len(tokens))), max_tokens)
    return [(" ".join(vocabulary.tokens(piece.ids)), piece.separator) for piece in pieces]


@pytest.mark.parametrize(
    ("text", "max_tokens", "pieces"),
    [
        ("", 4, []),
        ("▁a b", 4, [("▁a b", "")]),
        ("▁a ▁b ▁c ▁d", 4, [("▁a ▁b ▁c ▁d", "")]),
        # Behind the last clause in the second half of what fits, though more words would fit.
        ("▁a ▁b ▁c . ▁d ▁e ▁f", 6, [("▁a ▁b ▁c .", " "), ("▁d ▁e ▁f", "")]),
        ("▁a ▁b, ▁c ▁d, ▁e ▁f", 5, [("▁a ▁b, ▁c ▁d,", " "), ("▁e ▁f", "")]),
        # A clause in the first half would waste the room.
        ("▁a . ▁b ▁c ▁d ▁e ▁f", 6, [("▁a . ▁b ▁c ▁d ▁e", " "), ("▁f", "")]),
        # Else before the last word that begins there; a word is not torn.
        ("▁a ▁b ▁c d e f", 5, [("▁a ▁b", " "), ("▁c d e f", "")]),
        # Behind the very last token that fits, if a word begins there.
        ("▁a b c d ▁e", 4, [("▁a b c d", " "), ("▁e", "")]),
        # Without spaces, where the limit falls, and nothing stands between.
        ("▁a b c d e", 2, [("▁a b", ""), ("c d", ""), ("e", "")]),
        ("▁a ▁b ▁c", 1, [("▁a", " "), ("▁b", " "), ("▁c", "")]),
        # Other scripts' clauses.
        ("▁a 你 好。 ▁b 世 界", 4, [("▁a 你 好。", " "), ("▁b 世 界", "")]),
    ],
)
def test_cuts_by_hand(text: str, max_tokens: int, pieces: list[tuple[str, str]]) -> None:
    assert cut(text, max_tokens) == pieces


@given(st.text("abc ., é😀\t\n", max_size=80), st.integers(1, 12))
@settings(deadline=None)
def test_pieces_are_whole_within_the_limit_and_in_order(
    vocabulary: Vocabulary, text: str, max_tokens: int
) -> None:
    (ids,) = vocabulary.encode([text])
    pieces = split_ids(vocabulary, ids, max_tokens)
    assert [i for piece in pieces for i in piece.ids] == ids
    assert all(0 < len(piece.ids) <= max_tokens for piece in pieces)
    # A space stands between two pieces exactly where the second begins a word.
    following = [vocabulary.tokens(piece.ids)[0] for piece in pieces[1:]]
    wanted = [" " if token.startswith("▁") else "" for token in following]
    assert [piece.separator for piece in pieces] == wanted + [""] * bool(pieces)


@given(st.text("thecatdogb., ", max_size=80), st.integers(1, 12))
@settings(deadline=None)
def test_pieces_that_are_translated_by_themselves_join_to_the_text(
    vocabulary: Vocabulary, text: str, max_tokens: int
) -> None:
    (ids,) = vocabulary.encode([text])
    pieces = split_ids(vocabulary, ids, max_tokens)
    joined = join_pieces(
        vocabulary.decode([piece.ids for piece in pieces]), [piece.separator for piece in pieces]
    )
    assert joined == vocabulary.decode([ids])[0].strip()


def test_joined_text_has_no_space_at_its_edges() -> None:
    assert join_pieces(["a", "b", ""], [" ", " ", ""]) == "a b"
    assert join_pieces(["", "a"], [" ", ""]) == "a"
    assert join_pieces([], []) == ""
