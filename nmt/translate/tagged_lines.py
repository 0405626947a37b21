"""Tags are taken out of lines and put back into translations, and so are signs that those lost.

Models drop emoji and other signs that they have hardly seen in training. Those that are no pieces
of the vocabulary, they do not see: what a model does not know spoils the translation beside it. Of
text without markup, only lines with such signs, and those that have lost one, need an alignment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from nmt.data.vocabulary import UNK_ID, Vocabulary
from nmt.markup.breaks import LINE_END, MarkedLines
from nmt.markup.kept_pieces import SIGN
from nmt.markup.tag_writer import restore
from nmt.markup.tags import Marked, mark_signs
from nmt.markup.text_units import Link
from nmt.translate.joined_segments import JoinSegments
from nmt.translate.output import Translation
from nmt.translate.segment import Segment
from nmt.translate.segment_lines import only_text
from nmt.translate.steps import LinesUnderWay

_BYTE = re.compile("<0x[0-9A-F]{2}>")


def take_tags_out(
    form: str,
    is_known: Callable[[str], bool],
    keeps_alignment: bool,
    segments_of: Callable[..., list[list[Segment]]],
    lines: LinesUnderWay,
) -> None:
    """Leave the text without tags, cut into segments: the first step with --markup.

    is_known: tells whether the model knows a sign; keeps_alignment: whether anybody else needs that
    of translations; segments_of: see `SegmentLines.of`.
    """
    marked = [MarkedLines.of(only_text(line), form) for line in lines.texts]
    for line in marked:
        for part in line.lines:
            part.take_signs_out(is_known)
    lines.texts = [line.text for line in marked]
    lines.contexts = [
        [MarkedLines.of(line, form).text.replace(LINE_END, " ") for line in context]
        for context in lines.contexts
    ]
    kept = [line.kept for line in marked]
    lines.segments = segments_of(lines.texts, (), kept, are_units=lines.are_units)
    lines.restore = partial(_put_tags_back, marked, keeps_alignment, lines)


def _put_tags_back(
    marked: Sequence[MarkedLines], keeps_alignment: bool, lines: LinesUnderWay
) -> None:
    for number, line in enumerate(marked):
        translation = lines.translations[number]
        if not translation.error:
            lines.translations[number] = _restored(
                translation, line.text, line.restore, keeps_alignment
            )


def _restored(
    translation: Translation, src: str, restored: Callable[..., str], keeps_alignment: bool
) -> Translation:
    """Return a translation, and the others of its line, with what was taken out of the source.

    restored: puts it into a text, given the links of characters.
    """
    alignment = translation.alignment
    links: tuple[list[Link], list[Link]] = [], []
    if alignment is not None:
        links = alignment.links(src, translation.text, translation.tokens)
    return replace(
        translation,
        text=restored(translation.text, *links),
        alignment=alignment if keeps_alignment else None,
        others=tuple(
            _restored(other, src, restored, keeps_alignment) for other in translation.others
        ),
    )


def knows_signs(vocabulary: Vocabulary) -> Callable[[str], bool]:
    """Return what tells whether a vocabulary has pieces for a sign, other than its bytes."""

    @cache
    def is_known(sign: str) -> bool:
        (ids,) = vocabulary.encode_text([sign])
        tokens = vocabulary.tokens(ids)
        return bool(ids) and UNK_ID not in ids and not any(map(_BYTE.fullmatch, tokens))

    return is_known if is_known("a") else lambda _: True  # of bytes only


def take_signs_out(
    is_known: Callable[[str], bool], join: JoinSegments | None, lines: LinesUnderWay
) -> None:
    """Leave the text without signs that the model does not know: the first step otherwise.

    Those that are lost in translation come back with them.

    is_known: tells whether the model knows a sign.
    join: gives alignments; None: translations have them.
    """
    without_signs = dict[int, Marked]()
    for number, text in enumerate(lines.texts):
        if not text.isascii() and SIGN.search(text):
            marked = mark_signs(text)
            if marked.take_signs_out(is_known):
                without_signs[number] = marked
    if without_signs:
        lines.texts = [
            without_signs[number].text if number in without_signs else text
            for number, text in enumerate(lines.texts)
        ]
    lines.restore = partial(_put_signs_back, without_signs, join, lines)


def _put_signs_back(
    without_signs: Mapping[int, Marked], join: JoinSegments | None, lines: LinesUnderWay
) -> None:
    marked = {
        number: without_signs.get(number) or mark_signs(text)
        for number, text in enumerate(lines.texts)
        if number in without_signs
        or (not text.isascii() and has_lost_signs(text, lines.translations[number]))
    }
    if join is not None and marked:
        lines.translations.update(_aligned(lines, marked, join))
    for number, line in marked.items():
        translation = lines.translations[number]
        if not translation.error:
            lines.translations[number] = _restored(
                translation, line.text, partial(restore, line), keeps_alignment=join is None
            )


def _aligned(
    lines: LinesUnderWay, wanted: Container[int], join: JoinSegments
) -> dict[int, Translation]:
    """Return the translations of some lines with alignments, where there can be any."""
    chosen, of_chosen = list[int](), list[int]()
    at = 0  # the number of the line's first searched segment
    for number, segments in enumerate(lines.segments):
        if lines.translations[number].context:  # its window was searched, not its segments
            continue
        end = at + sum(segment.copy is None for segment in segments)
        if number in wanted:
            chosen.append(number)
            of_chosen += range(at, end)
        at = end
    some = LinesUnderWay(
        [lines.texts[number] for number in chosen],
        segments=[lines.segments[number] for number in chosen],
        searched=[lines.searched[segment] for segment in of_chosen],
        results=[lines.results[segment] for segment in of_chosen],
        guarded={at for at, segment in enumerate(of_chosen) if segment in lines.guarded},
    )
    join(some)
    return {
        number: replace(some.translations[at], fell_back=lines.translations[number].fell_back)
        for at, number in enumerate(chosen)
    }


def has_lost_signs(text: str, translation: Translation) -> bool:
    """Tell whether one of a line's translations has fewer of a sign than the line."""
    signs = _signs_of(text)
    if not signs or translation.error or not mark_signs(text).has_words:
        return False
    return any(signs - _signs_of(one.text) for one in translation.n_best)


def _signs_of(text: str) -> Counter[str]:
    return Counter("".join(sign[0] for sign in SIGN.finditer(text)))
