"""Sources longer than a model has seen are cut into pieces, translated one by one and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.vocabulary import Vocabulary

_WORD_START = "\u2581"  # SentencePiece's mark for a space before a token
_CLAUSE_ENDS = tuple(".!?;:,。！？；，…")


@dataclass(frozen=True)
class Piece:
    """Part of a source."""

    ids: list[int]
    separator: str  # what stood between this piece and the next: a space, or nothing


def split_ids(vocabulary: Vocabulary, ids: list[int], max_tokens: int) -> list[Piece]:
    """Cut a source's ids into pieces of at most `max_tokens`; none for an empty source.

    A cut is made in the second half of what fits: behind the last word that ends a clause, else
    before the last word, else (a text without spaces) where the limit falls.
    """
    pieces = []
    while len(ids) > max_tokens:
        tokens = vocabulary.tokens(ids[: max_tokens + 1])
        cut = _cut_position(tokens, max_tokens)
        separator = " " if tokens[cut].startswith(_WORD_START) else ""
        pieces.append(Piece(ids[:cut], separator))
        ids = ids[cut:]
    if ids:
        pieces.append(Piece(ids, ""))
    return pieces


def _cut_position(tokens: Sequence[str], max_tokens: int) -> int:
    """Return where the next piece begins: 1 to max_tokens; `tokens` are max_tokens + 1."""
    candidates = range(max_tokens, max(1, max_tokens // 2) - 1, -1)
    word_starts = [at for at in candidates if tokens[at].startswith(_WORD_START)]
    for at in word_starts:
        if tokens[at - 1].endswith(_CLAUSE_ENDS):
            return at
    return word_starts[0] if word_starts else max_tokens


def join_pieces(texts: Sequence[str], separators: Sequence[str]) -> str:
    """Join the translations of a source's pieces."""
    joined = "".join(text + end for text, end in zip(texts, separators, strict=True))
    return joined.strip()
