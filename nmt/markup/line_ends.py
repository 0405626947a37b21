"""Line ends and columns of text: which line ends only wrap it, and where they are put back.

A line end wraps a sentence if the line before it has no full stop, and the next one goes on: with a
small letter, or after a line that is as long as wrapped ones are. In HTML and catalogues, in which
layout counts, both lines must also begin in one column and look like prose. What stands in columns,
parted by a tab or by three spaces or more, is no sentence.

A translation gets as many line ends as its source, at spaces, and so that its lines have the same
shares of the text.
"""

from __future__ import annotations

import html
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from nmt.data.words import INVISIBLE, ends_with_stop, is_mark

NO_TEXT = "\0"  # stands for each character of a tag, in the text that markup shows

_SIGN = "[-–—*+•‣◦▪▫●○■□·]"
_SPACES = r"(?:\s|&nbsp;|&#160;)+"
BULLET = re.compile(rf"\s*{_SIGN}{_SPACES}")
LIST_MARK = re.compile(rf"\s*(?:{_SIGN}|\(?(?:\d{{1,3}}(?:\.\d{{1,3}})*[.)]|[^\W\d_]\))){_SPACES}")
_LINE_ENDS = re.compile(r"\r\n?|[\n\u2028\u2029]|&#(?:0*1[03]|[xX]0*[aAdD]);")
_COLUMNS = re.compile(r"(?<=\S)(?: *+\t[ \t]*+| {3,}+)(?!\s)")
_JUSTIFIED = re.compile(r"(?=.{60})(?!.*?(?:\S {4}|\S *\t))(?:.*?\S {2,3}(?=\S)){3}")
_WRAP = re.compile(r"(?<![^\S\r\n])[^\S\r\n]*+(?:\r\n?|\n)[^\S\r\n]*+")
_LONG = 40  # characters: shorter lines were hardly wrapped
# Lines that end so were hardly wrapped either.
_COLONS, _CLOSING = ":;：；", "\"'”’“»›)]}」』" + INVISIBLE
_OPENING = "\"'“”‘«„([{¿¡$%&"
_LEAST_PROSE = 0.9  # of its characters are letters or spaces
# Where text may be cut: at spaces, and between characters of Chinese and Japanese.
_GAP = re.compile(
    "(?<![ \t])[ \t]++(?![!?:;»])|(?<=[\u3001-\u9fff\uff01-\uff1f])(?=[\u3041-\u9fff])"
)


def line_breaks(shown: str, *, has_layout: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line end that does not only wrap text, and of what parts columns.

    shown: markup, with `NO_TEXT` in place of its tags.
    has_layout: whether indentation means something.
    """
    ends = list(_LINE_ENDS.finditer(shown))
    starts = [0, *(end.end() for end in ends)]
    lines = [
        shown[start:end]
        for start, end in zip(starts, [*(end.start() for end in ends), len(shown)], strict=True)
    ]
    for start, line in zip(starts, lines, strict=True):
        for gap in _columns(line):
            yield start + gap.start(), start + gap.end()
    is_new, before, is_sentence = True, "", False
    for end, (line, following) in zip(ends, pairwise(lines), strict=True):
        if is_new:
            is_sentence = _begins_sentence(line)
        wraps = end[0][0] in "\r\n" and _wraps(line, following)
        if wraps and has_layout:
            wraps = _is_laid_out_as_prose(line, following, before, is_sentence=is_sentence)
        if not wraps:
            yield end.span()
        is_new, before = not wraps, line


def _columns(line: str) -> list[re.Match[str]]:
    """Return what parts columns: a tab or three spaces, but not in a line that is justified."""
    return [] if _JUSTIFIED.match(line) else list(_COLUMNS.finditer(line))


def _wraps(line: str, following: str) -> bool:
    if LIST_MARK.match(following) or _columns(following):
        return False
    text, goes_on = _plain(_last_column(line)[1]), _plain(following)
    ending = text.rstrip(_CLOSING)
    if not any(map(str.isalpha, text)) or not goes_on:
        return False
    if ends_with_stop(ending) or ending.endswith(tuple(_COLONS)):
        return False
    may_go_on = goes_on[0].isalnum() or goes_on[0] in _OPENING
    return goes_on[0].islower() or (len(text) >= _LONG and may_go_on)


def _is_laid_out_as_prose(line: str, following: str, before: str, *, is_sentence: bool) -> bool:
    column, text = _last_column(line)
    if _width(following) - len(_plain(following)) != column:
        return False
    text, goes_on = _plain(text), _plain(following)
    letters = sum(
        character.isalpha() or is_mark(character) or character.isspace()
        for character in text + goes_on
    )
    if letters < _LEAST_PROSE * len(text + goes_on):
        return False
    if goes_on[0].islower():
        return is_sentence or len(text) >= _LONG
    longest = max(len(_plain(other)) for other in (before, line, following))
    return len(_plain(line)) + 1 + len(goes_on.split(maxsplit=1)[0]) > longest


def _begins_sentence(line: str) -> bool:
    """Tell whether a line begins with a capital, or its text behind a list mark or a column."""
    _, text = _last_column(line)
    is_hanging = text.strip() != line.strip()
    return is_hanging or _plain(text).lstrip(_OPENING)[:1].isupper()


def _last_column(line: str) -> tuple[int, str]:
    """Return where the last column of a line begins, after its list mark, and its text."""
    start = max((gap.end() for gap in _columns(line)), default=0)
    mark = LIST_MARK.match(line, start)
    start = mark.end() if mark else start + len(line[start:]) - len(line[start:].lstrip())
    return _width(line[:start] + "|") - 1, line[start:]


def _plain(shown: str) -> str:
    return html.unescape(shown.replace(NO_TEXT, "")).strip()


def _width(shown: str) -> int:
    return len(html.unescape(shown.replace(NO_TEXT, "").rstrip()).expandtabs())


def put_line_ends_back(translation: str, shown: str, source_shown: str) -> str:
    """Return a translation with the line ends that wrap its source.

    translation: with its tags; shown: the same, with `NO_TEXT` in place of these; source_shown: the
    source in this form.
    """
    wraps = _WRAP.findall(source_shown)
    weights = [len(_plain(line)) for line in _WRAP.split(source_shown)]
    parts = divide(translation, shown, shares(shown, weights)) if wraps else [translation]
    return "".join(
        part + wrap for part, wrap in zip(parts, [*wraps[: len(parts) - 1], ""], strict=True)
    )


def shares(shown: str, weights: Sequence[int]) -> list[float]:
    """Return where the parts of a text end, but for the last, if their lengths are like these."""
    length, whole = len(shown) - shown.count(NO_TEXT), sum(weights)
    return [length * share / whole for share in accumulate(weights[:-1])]


def divide(text: str, shown: str, ends: Sequence[float]) -> list[str]:
    """Cut text between the words that are next to these places; less often if it has too few.

    text: with tags; shown: the same, with `NO_TEXT` in place of these; ends: by characters that are
    shown, in order.
    """
    gaps = [gap.span() for gap in _GAP.finditer(shown)]
    hidden = list(accumulate((sign == NO_TEXT for sign in shown), initial=0))
    places = [start - hidden[start] for start, _ in gaps]
    parts, last, first = [], 0, 0
    for following_ends, end in zip(reversed(range(len(ends))), ends, strict=True):
        if first == len(gaps):
            break
        stop = max(first + 1, len(gaps) - following_ends)
        following = bisect(places, end, first, stop)
        nearest = range(max(first, following - 1), min(following + 1, stop))
        best = min(nearest, key=lambda gap: abs(places[gap] - end))
        parts.append(text[last : gaps[best][0]])
        last, first = gaps[best][1], best + 1
    return [*parts, text[last:]]
