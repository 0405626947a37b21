"""What is taken out of a line before its translation, and put back into that: tags and signs.

Models drop emoji and other signs that they have hardly seen in training. Those that are no pieces
of the vocabulary, they do not see: what a model does not know spoils the translation beside it. Of
text without markup, only lines with such signs, and those that have lost one, need an alignment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from nmt.data.vocabulary import UNK_ID, Vocabulary
from nmt.markup.breaks import MarkedLines
from nmt.markup.kept_pieces import SIGN
from nmt.markup.tag_writer import restore
from nmt.markup.tags import mark_signs
from nmt.markup.text_units import Link
from nmt.translate.output import Translation
from nmt.translate.segment import Spans

_BYTE = re.compile("<0x[0-9A-F]{2}>")

Restore = Callable[[str, Sequence[Link], Sequence[Link]], str]
"""Puts what was taken out of a line into its translation, given the links of characters, and the
links of source tokens that have none of those."""


class TakenOut(NamedTuple):
    """A line without what the model must not see."""

    text: str
    protected: Spans = ()  # parts of the text that stay as they are
    restore: Restore | None = None  # None: nothing was taken out


def take_out(
    is_known: Callable[[str], bool], form: str | None, line: str | MarkedLines
) -> TakenOut:
    """Take out of a line, or of a unit of a document, its tags, and signs that the model lacks.

    is_known: tells whether the model knows a sign; form: of the tags in lines, if they have some.
    """
    if form is not None and not isinstance(line, MarkedLines):
        line = MarkedLines.of(line, form)
    if isinstance(line, MarkedLines):
        for part in line.lines:
            part.take_signs_out(is_known)
        return TakenOut(line.text, line.protected, line.restore)
    if not line.isascii() and SIGN.search(line):
        marked = mark_signs(line)
        if marked.take_signs_out(is_known):
            return TakenOut(marked.text, restore=partial(restore, marked))
    return TakenOut(line)


def restore_lost_signs(text: str, translation: Translation) -> Restore | None:
    """Return what puts back signs that one of a line's translations lost; None if none did."""
    signs = Counter() if text.isascii() else _signs_of(text)
    if not signs or not any(signs - _signs_of(one.text) for one in translation.n_best):
        return None
    marked = mark_signs(text)
    return partial(restore, marked) if marked.has_words else None


def restored(
    translation: Translation, src: str, restore: Restore, *, keeps_alignment: bool
) -> Translation:
    """Return a translation, and the others of its line, with what was taken out of the source.

    src: the text without it; keeps_alignment: whether anybody else needs that.
    """
    alignment = translation.alignment
    links: tuple[list[Link], list[Link]] = [], []
    if alignment is not None:
        links = alignment.links(src, translation.text, translation.tokens)
    again = partial(restored, src=src, restore=restore, keeps_alignment=keeps_alignment)
    text, others = restore(translation.text, *links), tuple(map(again, translation.others))
    kept = alignment if keeps_alignment else None
    return replace(translation, text=text, alignment=kept, others=others)


def knows_signs(vocabulary: Vocabulary) -> Callable[[str], bool]:
    """Return what tells whether a vocabulary has pieces for a sign, other than its bytes."""

    @cache
    def is_known(sign: str) -> bool:
        (ids,) = vocabulary.encode_text([sign])
        tokens = vocabulary.tokens(ids)
        return bool(ids) and UNK_ID not in ids and not any(map(_BYTE.fullmatch, tokens))

    return is_known if is_known("a") else lambda _: True  # of bytes only


def _signs_of(text: str) -> Counter[str]:
    return Counter("".join(sign[0] for sign in SIGN.finditer(text)))
