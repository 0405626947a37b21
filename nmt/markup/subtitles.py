"""Subtitles (SubRip and WebVTT): what is said is translated, and everything else stays.

A unit is what one speaker says in a cue. If a sentence goes on in the next cue, both are one unit:
a tag between them comes back where the alignment puts it, and the translation is cut there, unless
a cue would have too little to read. A cue gets as many lines as it had, of about equal length.

A sentence goes on if the cue does not end like one, and the next cue follows soon. It does not if
only one of them is in capitals, or if the next one begins with a sound or the name of a speaker. If
few cues end like sentences, as in Chinese subtitles, each is taken for whole.

Source: https://www.w3.org/TR/webvtt1/#file-structure.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

from nmt.data.words import INVISIBLE, MARKS, ends_with_stop
from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.markup.document_units import Unit, as_html, as_text
from nmt.markup.line_ends import NO_TEXT, divide, shares

_SPACES = string.whitespace + "\u3000\xa0"
_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMES = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t\r][^\n]*)?$\n?", re.MULTILINE)
_LIKE_TIMES = re.compile(rf"^[ \t]*(?:\d[^\n]*-->|\d+:{_TIME})", re.MULTILINE)
_NUMBER = re.compile(r"^[ \t]*\d+[ \t\r]*\n\Z", re.MULTILINE)  # of the next cue
_BLOCK = re.compile(r"(?>(?:^(?=[^\n]*?\S)[^\n]*+(?:\n|\Z))+)", re.MULTILINE)  # without blank lines
_CUE_END = re.compile(r"^\r?\n", re.MULTILINE)  # in WebVTT, where a blank line may have spaces
_LINE = re.compile(r"(?>(?:[^\n\\]|\\(?!N))*)(?:\n|\\N|\Z)")
_TAG = re.compile(r"<[^<>]*>")
_SPACE = r"(?:\s|\\h)"  # \h is a hard space, and \N ends a line, as in SubStation Alpha
_BETWEEN_WORDS = re.compile(r"(?<=[^\s>}])(?<!\\h)(?>(?:\\h)+)(?![\s<{])")
_CODE = r"\{\\[^{}\n]*\}"  # as in SubStation Alpha
_INNER_TIME = r"<\d[\d:.]*>"
_AS_COMMENT = rf"{_CODE}|{_INNER_TIME}|(?:\\h)+"
_DASH = re.compile(rf"(?:{_SPACE}|{_CODE}|{_TAG.pattern})*[-–—‐]")
_LABEL = re.compile(
    rf"(?:{_SPACE}|{_CODE}|{_TAG.pattern})*"
    rf"(?:(?P<name>[\w{MARKS}.'’ -]{{1,30}})(?:\([^()\n]{{1,20}}\))?:(?!\S)|[\[(])"
)
"""The name of a speaker before what is said, or the beginning of a sound."""
_OPENING = re.compile(rf"(?:{_DASH.pattern})?(?:{_SPACE}|{_CODE}|[♪♫])*")
_CLOSING_TAGS = re.compile(r"(?<![>\s])(?>(?:</[^<>]*>\s*+)+)\Z")
_LINE_ENDS = r"(?>(?:(?>(?:[ \t]|\\h)*)(?:\r?\n|\\N))+)(?>(?:[ \t]|\\h)*)"
_BREAK = re.compile(rf"</(\w+)>{_LINE_ENDS}<\1>|(?<![ \t])(?<!\\h){_LINE_ENDS}")
_WRAPPED = re.compile(r"(?P<before>(?:<[^<>/]*>)+)(?P<text>[^<>]+)(?P<after>(?:</[^<>]*>)+)")
_QUOTES = "\"'”’»」』" + INVISIBLE + string.whitespace
_ENDS = tuple(":：♪♫])")  # besides stops
_FEW_ENDS = 0.25  # the part of cues that end like sentences, in subtitles without full stops
_LONGEST_GAP = 2.0  # seconds between two cues of a sentence
_MOST_CUES = 6  # of a sentence
_CUT = "<nmt-cut/>"
_DATA = re.compile(
    r"\{\s*\".*\}|\[\s*[{\"].*\]|(?:[a-z][a-z0-9+.-]{1,20}://|data:|//)\S+"
    r"|[^\s<>]+\.(?:avif|bmp|gif|jpe?g|js(?:on)?|m3u8|mp[34]|png|svg|ts|vtt|web[mp])(?:[?#]\S*)?"
    r"|\S+#xywh=[\d.,:a-z]+|[A-Za-z0-9+/_-]{60,}=*",
    re.IGNORECASE | re.DOTALL,
)
"""A cue for a program: JSON, an address, or the name of a picture for the bar of a player."""
_CLASS = r"(?<=<[cbiuv])\.|(?<=<rt)\.|(?<=<(?:lang|ruby))\."  # of an element of WebVTT


class _Speech(NamedTuple):
    """What one speaker says in a cue."""

    start: int  # of what is translated
    end: int
    text: str  # without line breaks
    breaks: list[str]  # between its lines
    begins: float  # seconds, of the cue
    ends: float
    is_whole: bool  # ends like a sentence, or somebody else speaks after it
    is_continued: bool  # may continue the cue before


def subtitle_parts(path: Path, subtitles: str) -> Iterator[str | Unit]:
    """Yield what stays and what is translated.

    path: their name; subtitles: all of them.
    DataError if a line looks like times but is not, or there are none.
    """
    is_vtt = subtitles.startswith("WEBVTT")
    last = 0
    cues = _cues(path, subtitles, is_vtt=is_vtt)
    for group in _sentences([speech for cue in cues for speech in _speeches(*cue)]):
        source = f"{_CUT} ".join(speech.text for speech in group)
        marked = MarkedLines.of(_as_html(source, is_vtt=is_vtt), "html")
        if marked.has_words:
            start, end = group[0].start, group[-1].end
            between = [subtitles[one.end : other.start] for one, other in pairwise(group)]
            spell = partial(_spelt, source=source, group=group, between=between, is_vtt=is_vtt)
            yield subtitles[last:start]
            yield Unit(marked, otherwise=subtitles[start:end], spell=spell)
            last = end
    yield subtitles[last:]


def cue_texts(path: Path, subtitles: str) -> Iterator[str]:
    """Yield what is said in each cue, on one line and without tags; DataError as above."""
    for _, payload in _cues(path, subtitles, is_vtt=subtitles.startswith("WEBVTT")):
        text = re.sub(f"{_CODE}|{_TAG.pattern}", "", payload)
        yield html.unescape(re.sub(r"\\[hN]", " ", text))


def _cues(path: Path, text: str, *, is_vtt: bool) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the times of each cue with text, and what follows them (DataError).

    In WebVTT, an empty line ends a cue.
    """
    times = list(_TIMES.finditer(text))
    starts = {found.start() for found in times}
    faults = [found.start() for found in _LIKE_TIMES.finditer(text) if found.start() not in starts]
    if not times and ("-->" in text if is_vtt else text.strip()):
        faults.append(0)
    if faults:
        number = text.count("\n", 0, faults[0]) + 1
        raise DataError(f"{path} line {number:,}: not times such as 00:00:01,000 --> 00:00:02,500")
    for cue, following in zip_longest(times, times[1:]):
        payload = text[cue.end() : len(text) if following is None else following.start()]
        if is_vtt:
            payload = _CUE_END.split(payload, maxsplit=1)[0]
        elif following is not None:
            payload = _NUMBER.sub("", payload)
        if not _DATA.fullmatch(payload.strip()):
            yield cue, payload


def _speeches(cue: re.Match[str], payload: str) -> Iterator[_Speech]:
    """Yield what is said in a cue."""
    spans: list[list[int]] = []  # start and end of what each says
    for block in _BLOCK.finditer(payload):
        position, has_ended = cue.end() + block.start(), True
        for line in filter(None, _LINE.findall(block[0])):
            goes_on = _TAG.sub("", line.replace("\\h", " ")).lstrip()[:1].islower()
            is_first = position == cue.end() + block.start()
            if is_first or (has_ended and not goes_on) or _DASH.match(line) or _names_speaker(line):
                spans.append([position, position])
            spans[-1][1] = position = position + len(line)
            has_ended = _is_whole(line)
    for start, end in spans:
        yield _speech(start, end, cue, is_first=start == spans[0][0], is_last=end == spans[-1][1])


def _speech(start: int, end: int, cue: re.Match[str], *, is_first: bool, is_last: bool) -> _Speech:
    opening = _OPENING.match(cue.string, start, end)
    assert opening is not None  # it fits an empty text
    said = cue.string[opening.end() : end]
    raw = _without_closing(said)
    if "<" in opening[0]:
        raw = _CLOSING_TAGS.sub("", raw)
    start, end = opening.end(), opening.end() + len(raw)
    joined = _BETWEEN_WORDS.sub(" ", _BREAK.sub(" ", raw))
    breaks = [found[0] for found in _BREAK.finditer(raw)]
    if wrapped := _WRAPPED.fullmatch(joined):
        start, end = start + len(wrapped["before"]), end - len(wrapped["after"])
        joined = wrapped["text"]
    else:
        breaks = [_TAG.sub("", each) for each in breaks]
    begins, ends = (
        3_600 * int(hours or 0) + 60 * int(minutes) + int(seconds) + float(f"0.{fraction}")
        for hours, minutes, seconds, fraction in (cue.groups()[:4], cue.groups()[4:])
    )
    is_whole = not is_last or _is_whole(said)
    is_begun = opening[0].strip().endswith(tuple("-–—‐♪♫")) or _names_speaker(said)
    return _Speech(start, end, joined, breaks, begins, ends, is_whole, is_first and not is_begun)


def _without_closing(said: str) -> str:
    """Return text without the spaces, line ends and notes of music at its end."""
    end = len(said)
    while end:
        if said[end - 1] in _SPACES + "♪♫":
            end -= 1
        elif said.endswith(("\\h", "\\N"), 0, end):
            end -= 2
        else:
            break
    return said[:end]


def _names_speaker(text: str) -> bool:
    """Tell whether text begins with the name of a speaker, or with a sound."""
    label = _LABEL.match(text)
    if label is None:
        return False
    name = label["name"] or ""
    words = name.split()
    if len(words) > 2 and name.lower() == name.upper():  # without case, they are hardly a name
        return False
    return all(word[0].isalnum() and word[0].title() == word[0] for word in words)


def _is_whole(text: str) -> bool:
    """Tell whether text ends like a sentence, or is a number by itself."""
    plain = _TAG.sub("", text).strip()
    ending = plain.rstrip(_QUOTES)
    return ends_with_stop(ending) or ending.endswith(_ENDS) or plain.isdecimal()


def _sentences(speeches: Sequence[_Speech]) -> Iterator[list[_Speech]]:
    """Join what is said in several cues, if it is one sentence."""
    has_stops = sum(one.is_whole for one in speeches) > _FEW_ENDS * len(speeches)
    group: list[_Speech] = []
    for speech in speeches:
        goes_on = (
            has_stops
            and 0 < len(group) < _MOST_CUES
            and not group[-1].is_whole
            and speech.is_continued
            and abs(speech.begins - group[-1].ends) <= _LONGEST_GAP
            and speech.text.isupper() == group[-1].text.isupper()
        )
        if group and not goes_on:
            yield group
            group = []
        group.append(speech)
    if group:
        yield group


def _as_html(text: str, *, is_vtt: bool) -> str:
    """Return text with its codes and times as comments, and its classes as attributes."""
    text = re.sub(_AS_COMMENT, r"<!--\g<0>-->", text)
    return re.sub(_CLASS, " .", text) if is_vtt else as_html(text)


def _spelt(
    translation: str, *, source: str, group: Sequence[_Speech], between: Sequence[str], is_vtt: bool
) -> str:
    """Return the text of cues, with what stands between them."""
    text = re.sub(rf"<!--({_AS_COMMENT})-->", r"\1", translation)
    text = re.sub(_CLASS.replace(r"\.", r" \."), ".", text) if is_vtt else as_text(text, source)
    pieces = text.split(_CUT)
    text = "".join(pieces).strip()
    shown = _shown(text)
    lengths = [len(_TAG.sub("", piece)) for piece in pieces]
    parts = divide(text, shown, list(accumulate(lengths[:-1])))
    weights = [len(speech.text) for speech in group]
    if not _are_alike(lengths, weights):
        parts = divide(text, shown, shares(shown, weights))
    parts += parts[-1:] * (len(group) - len(parts))  # too few words: the last ones stay
    written = []
    for part, speech, rest in zip(parts, group, [*between, ""], strict=True):
        shown = _shown(part)
        lines = divide(part, shown, shares(shown, [1] * (len(speech.breaks) + 1)))
        for line, end in zip(lines, [*speech.breaks[: len(lines) - 1], rest], strict=True):
            written += [line, end]
    return "".join(written)


def _shown(text: str) -> str:
    return _TAG.sub(lambda tag: NO_TEXT * len(tag[0]), text)


def _are_alike(lengths: Sequence[int], weights: Sequence[int]) -> bool:
    """Tell whether each part has at least half of the length that it would have by weight."""
    if len(lengths) != len(weights):
        return False
    scale = sum(lengths) / sum(weights)
    pairs = zip(lengths, weights, strict=True)
    return all(2 * length >= scale * weight for length, weight in pairs)
