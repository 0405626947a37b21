"""Character offsets of the tokens of a text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, groupby

WORD_START = "\u2581"  # SentencePiece's mark for a space before a token

_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a token of one byte


def token_offsets(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Return the character offsets of each token of a text: where it begins and ends.

    Both ascend. A token without text, such as a space, is empty.

    A vocabulary may have changed the text by Unicode normalisation (NFC, NFKC). If a character has
    become several tokens, the first of them has it. If a vocabulary has changed the text otherwise,
    the places between the first and the last change are estimated.
    """
    places = [
        position
        for position, character in enumerate(text)
        if not (character.isspace() or character == WORD_START)
    ]
    if not places:
        return [(0, 0)] * len(tokens)
    solid = "".join(text[position] for position in places)
    parts = _without_spaces(tokens)
    joined = "".join(part for part, _ in parts)
    ends = _equivalent_places(solid, joined) or _estimated_places(solid, joined)
    offsets = []
    position = last = 0
    for part, size in parts:
        first, end = ends[position], ends[position + len(part)]
        begin, last = (places[first], places[end - 1] + 1) if first < end else (last, last)
        offsets += [(begin, last)] * size
        position += len(part)
    return offsets


def _equivalent_places(text: str, other: str) -> Sequence[int]:
    """Return the place in `text` of each place in `other`, its end included.

    Empty if their decompositions (NFKD) differ. Those of `u◌̈ber` and `über` are the same, so the
    places 0, 1, 2 of the other are 0, 2, 3 of the first.
    """
    if text == other:
        return range(len(other) + 1)
    parts, other_parts = _decomposed(text), _decomposed(other)
    if [part for part, _ in parts] != [part for part, _ in other_parts]:
        return ()
    furthest = [0, *accumulate((index + 1 for _, index in parts), max)]
    sizes = Counter(index for _, index in other_parts)
    places = accumulate((sizes[index] for index in range(len(other))), initial=0)
    return [furthest[size] for size in places]


def _decomposed(text: str) -> list[tuple[str, int]]:
    """Return the characters of a text in NFKD, each with the place in the text that it is from."""
    parts = [
        (part, index)
        for index, character in enumerate(text)
        for part in unicodedata.normalize("NFKD", character)
        if not part.isspace()
    ]
    ordered = []
    for _, run in groupby(parts, key=lambda part: unicodedata.combining(part[0]) > 0):
        ordered += sorted(run, key=lambda part: unicodedata.combining(part[0]))
    return ordered


def _estimated_places(text: str, other: str) -> list[int]:
    """Return about the place in `text` of each place in `other`, its end included."""
    before = _common(text, other)
    after = _common(text[before:][::-1], other[before:][::-1])
    changed = len(other) - after - before  # characters
    scale = (len(text) - after - before) / changed if changed else 0.0

    def place(position: int) -> int:
        if position <= before:
            return position
        if position >= before + changed:
            return position - len(other) + len(text)
        return before + round((position - before) * scale)

    return list(map(place, range(len(other) + 1)))


def _common(one: str, other: str) -> int:
    """Return how many characters both texts begin with."""
    pairs = zip(one, other, strict=False)
    differences = (index for index, (left, right) in enumerate(pairs) if left != right)
    return next(differences, min(len(one), len(other)))


def _without_spaces(tokens: Sequence[str]) -> list[tuple[str, int]]:
    """Return the text of tokens without spaces, each with the number of tokens that it is of.

    Tokens of bytes in a row are one text.
    """
    texts = []
    for is_bytes, group in groupby(tokens, key=lambda token: bool(_BYTE.fullmatch(token))):
        if is_bytes:
            content = bytes(int(token[3:5], 16) for token in group)
            texts.append((content.decode("utf-8", "replace"), len(content)))
        else:
            texts += [("".join(token.replace(WORD_START, " ").split()), 1) for token in group]
    return texts
