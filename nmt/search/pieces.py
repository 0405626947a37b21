"""Sources longer than a model has seen are cut into pieces, translated one by one and joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.languages import primary_language
from nmt.data.vocabulary import Vocabulary
from nmt.search.sentences import CLOSING, STOPS, WIDE_CLOSING, WIDE_STOPS

WORD_START = "\u2581"  # SentencePiece's mark for a space before a token
_CLAUSE_ENDS = ";:,—؛،"
_WIDE_CLAUSE_ENDS = "，、；："
_NEVER_FIRST = STOPS + WIDE_STOPS + _CLAUSE_ENDS + _WIDE_CLAUSE_ENDS + WIDE_CLOSING
_INSIDE_CHARACTER = re.compile("<0x[89AB].>")  # of UTF-8 bytes all but the first are such

# What has hundreds of tokens without a space is hardly text, and models do not find its end: each
# piece of it would run to its longest translation, which is far shorter of a short one.
_IN_WORD_TOKENS = 64

_TORN_WORD = 3  # see `_harm`

_WITHOUT_SPACES = {"ja", "zh", "yue"}
_WORDS_WITHOUT_SPACES = _WITHOUT_SPACES | {"th", "lo", "km", "my"}


@dataclass(frozen=True)
class Piece:
    """Part of a source."""

    ids: list[int]
    separator: str  # what stood between this piece and the next: a space, or nothing
    is_cut: bool = False  # whether it is less than a whole line or sentence
    is_in_word: bool = False  # whether it is from within a word that is longer than the limit


def split_ids(
    vocabulary: Vocabulary, ids: list[int], max_tokens: int, *, src_lang: str = ""
) -> list[Piece]:
    """Cut a source's ids into pieces of at most `max_tokens`; none for an empty source.

    A cut is made in the second half of what fits: behind the last sentence that ends there, else
    behind the last clause, else before the last word, else where the limit falls, but not inside a
    character that is written in bytes. A word that is longer than the limit is cut shorter, unless
    its language is written without spaces.
    """
    has_spaces = primary_language(src_lang) not in _WORDS_WITHOUT_SPACES
    pieces = []
    start = 0
    while len(ids) - start > max_tokens:
        tokens = vocabulary.tokens(ids[start : start + max_tokens + 1])
        cut = _cut_position(tokens, max_tokens)
        is_in_word = has_spaces and _is_in_word(tokens, cut)
        if is_in_word:
            most = min(max_tokens, _IN_WORD_TOKENS)
            cut = _cut_position(tokens[: most + 1], most)
        separator = " " if tokens[cut].startswith(WORD_START) else ""
        pieces.append(Piece(ids[start : start + cut], separator, is_in_word=is_in_word))
        start += cut
    if start < len(ids):
        pieces.append(Piece(ids[start:], ""))
    return pieces


def _cut_position(tokens: Sequence[str], max_tokens: int) -> int:
    """Return where the next piece begins: 1 to max_tokens; `tokens` are max_tokens + 1."""
    candidates = range(max_tokens, max(1, max_tokens // 2) - 1, -1)
    return min(candidates, key=lambda at: _harm("".join(tokens[max(0, at - 2) : at]), tokens[at]))


def _is_in_word(tokens: Sequence[str], cut: int) -> bool:
    """Tell whether the best cut tears a word that all tokens are of."""
    harm = _harm("".join(tokens[max(0, cut - 2) : cut]), tokens[cut])
    return harm >= _TORN_WORD and not any(token.startswith(WORD_START) for token in tokens[1:])


def _harm(before: str, after: str) -> int:
    """Return what a cut parts: 0 sentences, 1 clauses, 2 words, 3 a word, 4 a character.

    before: the last two tokens, which are a stop and what closes behind it, if anything does.
    """
    starts_word = after.startswith(WORD_START)
    first = after.removeprefix(WORD_START)[:1]
    mark = before.rstrip(CLOSING if starts_word else WIDE_CLOSING)[-1:]
    if mark and (starts_word or _may_touch(mark, first)):
        if mark in STOPS + WIDE_STOPS:
            # Behind an abbreviation small letters go on; but some vocabularies know no others.
            return 0 if first.title() == first else 1
        if mark in _CLAUSE_ENDS + _WIDE_CLAUSE_ENDS:
            return 1
    if starts_word:
        return 2
    return _TORN_WORD + 1 if _INSIDE_CHARACTER.fullmatch(after) else _TORN_WORD


def _may_touch(mark: str, first: str) -> bool:
    """Whether what begins with `first` may follow a sentence or clause without a space."""
    if mark in WIDE_STOPS + _WIDE_CLAUSE_ENDS:
        return first not in _NEVER_FIRST
    # Unicode normalisation has written ，as a comma, and the letter behind it must tell.
    return first.isalpha() and first.lower() == first.upper()


def join_pieces(texts: Sequence[str], separators: Sequence[str]) -> str:
    """Join the translations of a source's pieces."""
    joined = "".join(text + end for text, end in zip(texts, separators, strict=True))
    return joined.strip()


def translated_separator(separator: str, *, src_lang: str, tgt_lang: str) -> str:
    """Return what stands between two translations, given what stood between their sources.

    A space goes where the target is written without, as Chinese and Japanese are, and comes where
    the source was. Thai, Lao, Khmer and Burmese part sentences by spaces, though not words.
    """
    if primary_language(tgt_lang) in _WITHOUT_SPACES:
        return "" if separator == " " else separator
    if not separator and primary_language(src_lang) in _WORDS_WITHOUT_SPACES:
        return " "
    return separator
