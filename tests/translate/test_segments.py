"""Over-long sources are cut where it hurts least, and nothing is lost at the cuts."""

from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.vocabulary import Vocabulary
from nmt.translate.segmentation import join_segments, split_ids, translated_separator


class WrittenVocabulary:
    """Only what cutting looks at: the token of an id, which is its place in a list."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._tokens[i] for i in ids]


def cut(text: str, max_tokens: int) -> list[tuple[str, str]]:
    """Pieces of a text whose tokens are parted by spaces, each with what stands behind it."""
    tokens = text.split()
    vocabulary = WrittenVocabulary(tokens)
    segments = split_ids(cast(Vocabulary, vocabulary), list(range(len(tokens))), max_tokens)
    texts = (" ".join(vocabulary.tokens(segment.source.ids)) for segment in segments)
    return [(text, one.separator) for text, one in zip(texts, segments, strict=True)]


@pytest.mark.parametrize(
    ("text", "max_tokens", "segments"),
    [
        ("", 4, []),
        ("▁a b", 4, [("▁a b", "")]),
        # Behind the last sentence in the second half of what fits, though clauses would fit.
        ("▁A ▁b . ▁C . ▁D , ▁e ▁f", 7, [("▁A ▁b . ▁C .", " "), ("▁D , ▁e ▁f", "")]),
        ("▁a ▁b ?! ” ▁“ D ▁e ▁f", 6, [("▁a ▁b ?! ”", " "), ("▁“ D ▁e ▁f", "")]),
        ("▁„ A ▁b . “ ▁C ▁d", 6, [("▁„ A ▁b . “", " "), ("▁C ▁d", "")]),
        ('▁A ▁b . ▁C " ) ▁D ▁e', 7, [("▁A ▁b .", " "), ('▁C " ) ▁D ▁e', "")]),  # no stop
        # Else behind the last clause, though more words would fit.
        ("▁a ▁b ▁c , ▁d ▁e ▁f", 6, [("▁a ▁b ▁c ,", " "), ("▁d ▁e ▁f", "")]),
        # A sentence does not begin with a small letter.
        ("▁a ▁b . ▁C . ▁d ▁e", 6, [("▁a ▁b .", " "), ("▁C . ▁d ▁e", "")]),
        # What stands in the first half would waste the room.
        ("▁a . ▁B ▁c ▁d ▁e ▁f", 6, [("▁a . ▁B ▁c ▁d ▁e", " "), ("▁f", "")]),
        # Else before the last word that begins there; a word is not torn, nor a number.
        ("▁a ▁b ▁c d e f", 5, [("▁a ▁b", " "), ("▁c d e f", "")]),
        ("▁a ▁b ▁c , d e f", 5, [("▁a ▁b", " "), ("▁c , d e f", "")]),
        # Behind the very last token that fits, if a word begins there.
        ("▁a b c d ▁e", 4, [("▁a b c d", " "), ("▁e", "")]),
        # Without spaces, where the limit falls, and nothing stands between.
        ("▁a b c d e", 2, [("▁a b", ""), ("c d", ""), ("e", "")]),
        # But not inside a character: these are é and €.
        ("▁a b <0xC3> <0xA9> d", 3, [("▁a b", ""), ("<0xC3> <0xA9> d", "")]),
        # Scripts that are written without spaces.
        ("▁你 好 。 世 ， 界 人", 6, [("▁你 好 。", ""), ("世 ， 界 人", "")]),
        ("▁你 好 吗 ？ ！ 世 界", 6, [("▁你 好 吗 ？ ！", ""), ("世 界", "")]),
        ("▁你 好 吗 ， 世 界 人", 6, [("▁你 好 吗 ，", ""), ("世 界 人", "")]),
    ],
)
def test_cuts_by_hand(text: str, max_tokens: int, segments: list[tuple[str, str]]) -> None:
    assert cut(text, max_tokens) == segments


@pytest.mark.parametrize(
    ("words", "src_lang", "lengths", "in_word"),
    [
        ([300], "en", [64, 64, 64, 64, 44], [True, True, True, True, False]),
        ([300], "th", [100, 100, 100], [False, False, False]),
        ([99, 99], "en", [99, 99], [False, False]),
        # What stands beside the word is cut as ever.
        ([3, 200, 4], "en", [100, 64, 43], [False, True, False]),
    ],
)
def test_a_word_longer_than_the_limit_is_cut_into_short_segments(
    words: list[int], src_lang: str, lengths: list[int], in_word: list[bool]
) -> None:
    tokens = [token for length in words for token in ("▁a", *"b" * (length - 1))]
    vocabulary = cast("Vocabulary", WrittenVocabulary(tokens))
    segments = split_ids(vocabulary, list(range(len(tokens))), 100, (src_lang, ""))
    assert [len(segment.source.ids) for segment in segments] == lengths
    assert [segment.source.is_in_word for segment in segments] == in_word


@given(st.text("abc ., é😀\t\n", max_size=80), st.integers(1, 12))
@settings(deadline=None)
def test_segments_are_whole_within_the_limit_and_in_order(
    vocabulary: Vocabulary, text: str, max_tokens: int
) -> None:
    (ids,) = vocabulary.encode([text])
    segments = split_ids(vocabulary, ids, max_tokens)
    assert [i for segment in segments for i in segment.source.ids] == ids
    assert all(0 < len(segment.source.ids) <= max_tokens for segment in segments)
    # A space stands between two segments exactly where the second begins a word.
    following = [vocabulary.tokens(segment.source.ids)[0] for segment in segments[1:]]
    wanted = [" " if token.startswith("▁") else "" for token in following]
    assert [segment.separator for segment in segments] == wanted + [""] * bool(segments)


@given(st.text("thecatdogb., ", max_size=80), st.integers(1, 12))
@settings(deadline=None)
def test_segments_that_are_translated_by_themselves_join_to_the_text(
    vocabulary: Vocabulary, text: str, max_tokens: int
) -> None:
    (ids,) = vocabulary.encode([text])
    segments = split_ids(vocabulary, ids, max_tokens)
    texts = vocabulary.decode([segment.source.ids for segment in segments])
    joined = join_segments(texts, [segment.separator for segment in segments])
    assert joined == vocabulary.decode([ids])[0].strip()


@pytest.mark.parametrize(
    ("src_lang", "tgt_lang", "separator", "wanted"),
    [
        ("en", "de", " ", " "),
        ("en", "de", "", ""),  # inside a word
        ("en", "zh", " ", ""),
        ("zh", "en", "", " "),
        ("zh", "ja", "", ""),
        # Spaces between sentences, if not between words.
        ("en", "th", " ", " "),
        ("th", "en", "", " "),
        ("th", "zh", " ", ""),
    ],
)
def test_translations_are_joined_as_their_language_is_written(
    src_lang: str, tgt_lang: str, separator: str, wanted: str
) -> None:
    assert translated_separator(separator, (src_lang, tgt_lang)) == wanted
