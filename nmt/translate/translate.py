"""The road from lines to their translations, which every way to translate takes.

A line on its way has four forms: its text, `Segment`s that are searched by themselves, what search
`Found` for each, and `Translation`s. Without `context`, a line's translation does not depend on the
other lines. Batches change only the speed and rounding. This file imports no torch, so that
CTranslate2 exports start without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from nmt.lexical.lemmas import is_installed
from nmt.markup.breaks import LINE_END, MarkedLines
from nmt.search.engine import Engine
from nmt.search.retry import (
    can_look_first,
    search_again_if_suspicious,
    search_placed,
    search_with_low_limit,
)
from nmt.translate.calibration import rate
from nmt.translate.context import search_windows, windows_of
from nmt.translate.joined_segments import JoinSegments
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.output import Translation
from nmt.translate.segment import Found, Segment
from nmt.translate.segment_lines import SegmentLines
from nmt.translate.taken_out import TakenOut, restore_lost_signs, restored
from nmt.translate.terms import note_terms


def translate_lines(
    lines: Sequence[str | MarkedLines],
    prefixes: Sequence[str],
    contexts: Sequence[Sequence[str]],
    *,
    engine: Engine,
    language_pair: LanguagePair,
    config: TranslationConfig,
    form: str | None,
    is_document: bool,
    take_out: Callable[[str | MarkedLines], TakenOut],
    segment_lines: SegmentLines,
    join_segments: JoinSegments,
    on_progress: Callable[[int], object] | None = None,
    on_step: Callable[[], object] | None = None,
) -> list[Translation]:
    """Return the translation of each line; see `Translator.translate`.

    prefixes, contexts: of each line; or none.
    form: of the tags in lines, if they have some; is_document: whether the lines are its units.
    take_out: takes out of a line what the model must not see.
    on_progress, on_step: see `Engine.search`.
    """
    # Take out what the model must not see: tags, and signs that it does not know.
    taken = [take_out(line) for line in lines]
    texts = [line.text for line in taken]

    # Segment: cut what is longer than the model was trained for, and copy what has no letters.
    protected = [line.protected for line in taken]
    segments = segment_lines(
        texts, prefixes, protected, is_document=is_document, has_breaks=form is not None
    )

    # Search, first together with the lines before, if you want. A line that fails there is
    # searched by itself.
    windows, in_context = {}, dict[int, list[Found | None]]()
    if config.context:
        before = [
            [take_out(line).text.replace(LINE_END, " ") for line in some] for some in contexts
        ]
        windows = windows_of(texts, before, segments, language_pair)
        in_context = search_windows(engine, windows, segments, language_pair, on_step)
        for number in in_context:
            segments[number] = [windows[number].segment]
    alone = [parts for number, parts in enumerate(segments) if number not in in_context]
    waiting = [segment for segment in chain.from_iterable(alone) if segment.copy is None]
    if on_progress is not None:  # what needs no search is done
        copies = sum(map(len, alone)) - len(waiting)
        on_progress(alone.count([]) + len(in_context) + copies)
    results = iter(search_segments(engine, waiting, on_progress=on_progress, on_step=on_step))
    found = [
        in_context.get(number) or [None if segment.copy else next(results) for segment in parts]
        for number, parts in enumerate(segments)
    ]

    # Join the translations of a line's segments.
    is_aligned = config.alignment or form is not None
    translations = join_segments(segments, found, is_aligned=is_aligned)
    for number, window in windows.items():
        count = window.lines_before if number in in_context else 0
        translations[number] = replace(translations[number], context=count, fell_back=not count)

    # Put back what was taken out, and signs that a translation has lost.
    restores = {
        number: restore
        for number, (line, translation) in enumerate(zip(taken, translations, strict=True))
        if not translation.error
        and (restore := line.restore or restore_lost_signs(line.text, translation))
    }
    if not is_aligned:  # only these lines need an alignment
        aligned = join_segments(
            [segments[number] for number in restores],
            [found[number] for number in restores],
            is_aligned=True,
        )
        for number, again in zip(restores, aligned, strict=True):
            first = translations[number]
            translations[number] = replace(again, context=first.context, fell_back=first.fell_back)
    if config.calibration is not None:  # whose features are those of text without tags
        rate(config.calibration.curve, texts, translations)
    for number, restore in restores.items():
        translations[number] = restored(
            translations[number], texts[number], restore, keeps_alignment=config.alignment
        )

    # Note which terms each translation has. A model that reads terms inflects them.
    if config.terms is not None:
        inflects = config.reads_annotations and is_installed()
        lang = language_pair.languages[1] if inflects else None
        translations = note_terms(translations, segments, form, lang)
    return translations


def search_segments(
    engine: Engine,
    segments: Sequence[Segment],
    *,
    on_progress: Callable[[int], object] | None = None,
    on_step: Callable[[], object] | None = None,
) -> list[Found]:
    """Search for each segment's translations, and again for what looks wrong."""
    sources = [segment.source for segment in segments]
    if any(source.phrases for source in sources):
        results = search_placed(engine, sources, on_progress=on_progress, on_step=on_step)
    elif can_look_first(engine):
        results = search_with_low_limit(engine, sources, on_progress=on_progress, on_step=on_step)
    else:
        results = engine.search(sources, on_progress=on_progress, on_step=on_step)
    again = search_again_if_suspicious(engine, sources, results, on_step=on_step)
    return [Found(result, number in again) for number, result in enumerate(results)]
