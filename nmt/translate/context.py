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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nmt.data.vocabulary import join_lines, split_lines
from nmt.errors import UsageError
from nmt.search.engine import Engine, Hypothesis, SearchResult, Source
from nmt.search.retry import Faults
from nmt.translate.language_pair import LanguagePair
from nmt.translate.segment import Found, Segment


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


class Window(NamedTuple):
    segment: Segment  # a line with lines before it, as one source
    lines_before: int


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


def windows_of(
    lines: Sequence[str],
    contexts: Sequence[Sequence[str]],
    segments: Sequence[Sequence[Segment]],
    language_pair: LanguagePair,
) -> dict[int, Window]:
    """Return the windows of the lines that have one, by their number.

    A window has as many lines before its own as fit. A line that is cut into segments has none, and
    neither has one that is copied, or with a tag of its own, such as `>>fra<<`.

    contexts: the lines before each line; segments: of each line.
    """
    vocabulary = language_pair.src_vocabulary
    separator, first = vocabulary.separator, vocabulary.first
    assert separator is not None  # `check_context` has seen to it
    texts = list(dict.fromkeys(line for context in contexts for line in context))
    rows = vocabulary.encode_text([vocabulary.split_tag(text)[1] for text in texts])
    ids = dict(zip(texts, rows, strict=True))
    windows = {}
    for number, (text, context) in enumerate(zip(lines, contexts, strict=True)):
        if len(segments[number]) != 1:
            continue
        (line,) = segments[number]
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
            windows[number] = Window(Segment(Source((*first, *joined)), added=added), len(before))
    return windows


def search_windows(
    engine: Engine,
    windows: Mapping[int, Window],
    segments: Sequence[Sequence[Segment]],
    language_pair: LanguagePair,
    on_step: Callable[[], object] | None,
) -> dict[int, list[Found | None]]:
    """Return what search has found for the line of each window, by its number, if it can be used.

    segments: of each line by itself.
    """
    separator = language_pair.tgt_vocabulary.separator
    assert separator is not None  # `check_context` has seen to it
    # Only here may search produce the separator.
    barred = tuple(token for token in engine.options.barred_ids if token != separator)
    within = engine.with_options(replace(engine.options, barred_ids=barred))
    results = within.search([window.segment.source for window in windows.values()], on_step=on_step)
    found = dict[int, list[Found | None]]()
    for (number, window), result in zip(windows.items(), results, strict=True):
        (line,) = segments[number]
        if own := _own_line(engine, window, line.source, result, separator):
            found[number] = [Found([own])]
    return found


def _own_line(
    engine: Engine, window: Window, line: Source, result: SearchResult, separator: int
) -> Hypothesis | None:
    """Return the translation of a window's own line, after those of the others, if it has one.

    It has none if it does not have as many lines, or if search would look at it again.
    """
    if isinstance(result, str):
        return None
    whole, options = result[0], engine.options
    parts = split_lines(whole.ids, separator)
    ids = tuple(parts[-1])
    if len(parts) != window.lines_before + 1 or not ids:
        return None
    log_probs = whole.token_log_probs[-len(ids) - 1 :]  # with eos
    log_prob = sum(log_probs)
    score = log_prob / options.penalty(len(ids) + 1)
    hypothesis = Hypothesis(ids, log_prob, score, log_probs, whole.ids[: -len(ids)])
    if not options.no_guard and options.sampling is None:
        runs_on = Faults.of(window.segment.source, result, options).runs_on
        if runs_on or Faults.of(line, [hypothesis], options) != Faults():
            return None
    return hypothesis
