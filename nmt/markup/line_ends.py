"""Line ends and columns of text: which line ends only wrap it, and where they are put back.

A line end wraps a sentence if the line before it has no full stop, and the next one goes on: with a
small letter, or after a line that is as long as wrapped ones are. In HTML and catalogues, in which
layout counts, both must look like prose, and the line must be as long, or hang: its text stands
behind a list mark or in a column, and that of the next one is right below it. What stands in
columns, parted by a tab or by three spaces or more, is no sentence.

A translation gets as many line ends as its source, at spaces, and so that its lines have the same
shares of the text.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
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
    has_layout: whether lines that are short mean something.
    """
    ends = list(_LINE_ENDS.finditer(shown))
    starts = [0, *(end.end() for end in ends)]
    stops = [*(end.start() for end in ends), len(shown)]
    lines = [shown[start:stop] for start, stop in zip(starts, stops, strict=True)]
    for start, line in zip(starts, lines, strict=True):
        for gap in _COLUMNS.finditer(line):
            yield start + gap.start(), start + gap.end()
    hangs = False
    for end, (line, following) in zip(ends, pairwise(lines), strict=True):
        column, text = _last_column(line)
        hangs = hangs or text.strip() != line.strip()
        wraps = end[0][0] in "\r\n" and _wraps(text, following)
        if wraps and has_layout:
            is_below = hangs and _width(following) - len(_plain(following)) == column
            wraps = (is_below or (not hangs and _is_long(text))) and _are_prose(text, following)
        if not wraps:
            yield end.span()
            hangs = False


def _wraps(line: str, following: str) -> bool:
    if LIST_MARK.match(following) or _COLUMNS.search(following):
        return False
    text, goes_on = _plain(line), _plain(following)
    ending = text.rstrip(_CLOSING)
    if not any(map(str.isalpha, text)) or not goes_on:
        return False
    if ends_with_stop(ending) or ending.endswith(tuple(_COLONS)):
        return False
    may_go_on = goes_on[0].isalnum() or goes_on[0] in _OPENING
    return goes_on[0].islower() or (_is_long(line) and may_go_on)


def _is_long(line: str) -> bool:
    return len(_plain(line)) >= _LONG


def _are_prose(line: str, following: str) -> bool:
    """Tell whether two lines are mostly letters and spaces."""
    both = _plain(line) + _plain(following)
    of_words = sum(each.isalpha() or is_mark(each) or each.isspace() for each in both)
    return of_words >= _LEAST_PROSE * len(both)


def _last_column(line: str) -> tuple[int, str]:
    """Return where the last column of a line begins, after its list mark, and its text."""
    start = max((gap.end() for gap in _COLUMNS.finditer(line)), default=0)
    mark = LIST_MARK.match(line, start)
    start = mark.end() if mark else len(line) - len(line[start:].lstrip())
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
    ends = [*wraps[: len(parts) - 1], ""]
    return "".join(part + end for part, end in zip(parts, ends, strict=True))


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
    parts, last = [], 0
    for gap in nearest_in_order(places, ends):
        parts.append(text[last : gaps[gap][0]])
        last = gaps[gap][1]
    return [*parts, text[last:]]


def nearest_in_order(places: Sequence[float], wanted: Sequence[float]) -> list[int]:
    """Return the number of the place nearest to each wanted one, all in order.

    places: ascending. If they are too few, the last wanted ones have none.
    """
    chosen, first = list[int](), 0
    for following, place in zip(reversed(range(len(wanted))), wanted, strict=True):
        if first == len(places):
            break
        stop = max(first + 1, len(places) - following)
        after = bisect_left(places, place, first, stop)
        nearest = range(max(first, after - 1), min(after + 1, stop))
        chosen.append(min(nearest, key=lambda number: abs(places[number] - place)))
        first = chosen[-1] + 1
    return chosen
