"""Context: the lines of a document that are translated together with a line.

A window is a line and up to `--context` lines before it, as one source (`nmt.data.vocabulary`). The
model translates all of it, and the line's translation is what comes after the last separator. If
there are not as many lines as in the source, or if the guard against loops would search again, the
window's translation is dropped and the line is translated by itself.

Each line is searched with its own window, whatever was found for the lines before. So it depends on
its own text and the lines before it, but not on pools, workers or where a job was resumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nmt.data.vocabulary import join_lines, split_lines
from nmt.errors import UsageError
from nmt.search.engine import Engine, Hypothesis, SearchResult, Source
from nmt.search.retry import Faults
from nmt.translate.joined_segments import JoinSegments
from nmt.translate.language_pair import LanguagePair
from nmt.translate.segment import Segment
from nmt.translate.steps import LinesUnderWay, Step


class Before:
    """The lines of a document before the next one, at most `most` of them."""

    def __init__(self, most: int, lines: Iterable[str] = ()) -> None:
        self._lines: deque[str] = deque(maxlen=most)
        for line in lines:
            self.take(line)

    def take(self, line: str) -> tuple[str, ...]:
        """Return the lines before this one, and remember it. A blank line ends the document."""
        if not line.strip():
            self._lines.clear()
            return ()
        before = tuple(self._lines)
        self._lines.append(line)
        return before


Window = tuple[Segment, int]  # a line with lines before it, as one source, and how many these are


def contexts_of(
    lines: Sequence[str], contexts: Sequence[Sequence[str]] | None, count: int
) -> list[list[str]]:
    """Return at most `count` lines before each line, given or those of `lines` (UsageError)."""
    if contexts is None:
        before = Before(count)
        return [list(before.take(line)) for line in lines]
    if any(isinstance(context, str) for context in contexts):
        raise UsageError("contexts are a list of lists: of the lines before each line")
    if len(contexts) != len(lines):
        raise UsageError(f"{len(lines)} lines but {len(contexts)} contexts; give one for each line")
    if any(contexts) and not count:
        raise UsageError("contexts need a translator with context; load it with context=N")
    return [list(context[max(0, len(context) - count) :]) for context in contexts]


def translate_in_context(
    engine: Engine,
    language_pair: LanguagePair,
    join: JoinSegments,
    alone: Sequence[Step],
    lines: LinesUnderWay,
) -> None:
    """Translate lines together with lines before them, as far as the model can.

    alone: the steps that translate the other lines, each by itself.
    """
    separator = language_pair.tgt_vocabulary.separator
    assert separator is not None  # `check_context` has seen to it
    windows = _windows(lines, language_pair)
    # Only here may search produce the separator.
    barred = tuple(token for token in engine.options.barred_ids if token != separator)
    within = engine.with_options(replace(engine.options, barred_ids=barred))
    sources = [window.source for window, _ in windows.values()]
    results = within.search(sources, on_step=lines.on_step)
    found = dict[int, SearchResult]()
    for (number, (window, before)), result in zip(windows.items(), results, strict=True):
        (line,) = lines.segments[number]
        own = _own_line(engine, window.source, line.source, before, result, separator)
        if own is not None:
            found[number] = [own]
    translated = join.translations([windows[n][0] for n in found], list(found.values()), ())
    for number, translation in zip(found, translated, strict=True):
        window, before = windows[number]
        joined = join.joined([window], [translation])
        lines.translations[number] = replace(joined, context=before)
    fell_back = windows.keys() - found.keys()
    for step in alone:
        step(lines)
    for number in fell_back:
        lines.translations[number] = replace(lines.translations[number], fell_back=True)


def _windows(lines: LinesUnderWay, language_pair: LanguagePair) -> dict[int, Window]:
    """Return the windows of the lines that have one, by their number.

    A window has as many lines before its own as fit. A line that is cut into segments has none, and
    neither has one that is copied, or with a tag of its own, such as `>>fra<<`.
    """
    vocabulary = language_pair.src_vocabulary
    separator, first = vocabulary.separator, vocabulary.first
    assert separator is not None  # `check_context` has seen to it
    texts = list(dict.fromkeys(line for context in lines.contexts for line in context))
    rows = vocabulary.encode_text([vocabulary.split_tag(text)[1] for text in texts])
    ids = dict(zip(texts, rows, strict=True))
    windows = {}
    for number, (text, context) in enumerate(zip(lines.texts, lines.contexts, strict=True)):
        if len(lines.segments[number]) != 1:
            continue
        (line,) = lines.segments[number]
        if line.is_cut or line.copy or vocabulary.split_tag(text)[0] != first:
            continue
        room = language_pair.max_src_tokens - len(line.source.ids)
        before: list[list[int]] = []
        for earlier in reversed(context):
            room -= len(ids[earlier]) + 1
            if room < 0 or not ids[earlier]:
                break
            before.insert(0, ids[earlier])
        if before:
            joined = join_lines([*before, line.source.ids[len(first) :]], separator)
            added = len(first) + sum(len(row) + 1 for row in before)
            windows[number] = Segment(Source((*first, *joined)), added=added), len(before)
    return windows


def _own_line(
    engine: Engine, window: Source, line: Source, before: int, result: SearchResult, separator: int
) -> Hypothesis | None:
    """Return the translation of a window's own line, after `before` others, if it can be used."""
    if isinstance(result, str):
        return None
    whole, options = result[0], engine.options
    parts = split_lines(whole.ids, separator)
    ids = tuple(parts[-1])
    if len(parts) != before + 1 or not ids:
        return None
    log_probs = whole.token_log_probs[-len(ids) - 1 :]  # with eos
    log_prob = sum(log_probs)
    score = log_prob / options.penalty(len(ids) + 1)
    hypothesis = Hypothesis(ids, log_prob, score, log_probs, whole.ids[: -len(ids)])
    if not options.no_guard and options.sampling is None:
        runs_on = Faults.of(window, result, options).runs_on
        if runs_on or Faults.of(line, [hypothesis], options) != Faults():
            return None
    return hypothesis
