"""Where the tokens of a text stand in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

WORD_START = "\u2581"
"""SentencePiece's mark for a space before a token."""

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a token of one byte


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Return where each token of a text begins and ends in it.

    Both ascend. A token without text, such as a space, has an empty span.

    If a vocabulary has changed the text, for example by Unicode normalisation, the places between
    the first and the last change are estimated.
    """
    places = [at for at, one in enumerate(text) if not (one.isspace() or one == WORD_START)]
    if not places:
        return [(0, 0)] * len(tokens)
    solid = "".join(text[at] for at in places)
    parts = _without_spaces(tokens)
    joined = "".join(part for part, _ in parts)
    before = _common(solid, joined)
    after = _common(solid[before:][::-1], joined[before:][::-1])
    changed = len(joined) - after - before  # characters
    scale = (len(solid) - after - before) / changed if changed else 0.0

    def place(at: int) -> int:
        """Return the place in `solid` of a place in `joined`."""
        if at <= before:
            return at
        if at >= before + changed:
            return at - len(joined) + len(solid)
        return before + round((at - before) * scale)

    spans = []
    at = last = 0
    for part, size in parts:
        first, end = place(at), place(at + len(part))
        span = (places[first], places[end - 1] + 1) if first < end else (last, last)
        spans += [span] * size
        at, last = at + len(part), span[1]
    return spans


def _common(one: str, other: str) -> int:
    """Return how many characters both texts begin with."""
    pairs = zip(one, other, strict=False)
    differences = (at for at, (left, right) in enumerate(pairs) if left != right)
    return next(differences, min(len(one), len(other)))


def _without_spaces(tokens: Sequence[str]) -> list[tuple[str, int]]:
    """Return the text of tokens without spaces, each with the number of tokens that it is of.

    Tokens of bytes in a row are one text.
    """
    found = []
    for is_bytes, group in groupby(tokens, key=lambda token: bool(_BYTE.fullmatch(token))):
        if is_bytes:
            content = bytes(int(token[3:5], 16) for token in group)
            found.append((content.decode("utf-8", "replace"), len(content)))
        else:
            found += [("".join(token.replace(WORD_START, " ").split()), 1) for token in group]
    return found
