"""Text without letters, which is copied: models invent sentences for a line such as `-` or `2024`.

Addresses and placeholders, such as `https://example.org` and `{name}`, do not count as letters.
Whatever has another letter is translated, such as `12:30 Uhr` or `5 km`. So the form of a number is
changed only in a line that is translated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from nmt.data.vocabulary import UNK_ID, Vocabulary
from nmt.data.words import has_letters
from nmt.markup.kept_pieces import piece_pattern
from nmt.translate.alignment import Alignment
from nmt.translate.output import Translation
from nmt.translate.segment import Copy, Segment

_IN_PIECES = re.compile(r"[{%$@:\\[#_]|www\.")  # one of them is in any piece with letters


def has_words(text: str, protected: Sequence[tuple[int, int]] = ()) -> bool:
    """Tell whether a text has letters besides what is protected: addresses and placeholders."""
    if not has_letters(text):
        return False
    if protected or not _IN_PIECES.search(text):
        return has_letters(text, protected)
    return has_letters(text, [piece.span() for piece in piece_pattern().finditer(text)])


def copying(segments: Sequence[Segment], vocabulary: Vocabulary) -> list[Segment]:
    """Return the segments of a sentence, of which those without words are copied.

    Their text is what the vocabulary makes of their ids. With a part that it does not know, or with
    a listed word, a segment is translated.
    """
    ids = [segment.plain or segment.source.ids for segment in segments]
    return [
        segment
        if segment.listed or UNK_ID in own or has_words(text)
        else replace(segment, copy=Copy(text, own))
        for segment, own, text in zip(segments, ids, vocabulary.decode(ids), strict=True)
    ]


def copy_translation(segment: Segment, vocabulary: Vocabulary, *, alignment: bool) -> Translation:
    """Return the translation of a segment that is copied.

    It is certain, so each token has the log-probability 0. Each is aligned to itself.

    vocabulary: of sources.
    """
    assert segment.copy is not None
    text, ids = segment.copy
    tokens = tuple(vocabulary.tokens(ids))
    to_itself = None
    if alignment:
        import numpy as np

        src_tokens = vocabulary.tokens(segment.source.ids)[segment.added :]
        before = len(src_tokens) - len(tokens)  # those of a tag
        blocks = [np.ones((1, 1), np.float32)] * len(tokens)
        if blocks:
            blocks[0] = np.eye(1, before + 1, before, np.float32)
        to_itself = Alignment.from_attention(blocks, src_tokens, tokens)
    zeros = (0.0,) * len(tokens)
    return Translation(
        text, 0.0, 0.0, tokens, zeros, 1, is_cut=segment.is_cut, copied=True, alignment=to_itself
    )
