"""Breaks: markup is cut into the lines that it shows, which are translated one by one.

A break is a tag such as `<br>` or `<p>`, or in XLIFF and TMX a code that stands for one. So are a
line end that does not only wrap text, what parts columns (`line_ends`), and the bar of `Home | Us`.
What is between two breaks is a line. Breaks stay, and so do lines without words, and the spaces and
list marks beside a break. A CDATA section begins and ends a line. Its text is HTML.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from nmt.markup.kept_pieces import find_message
from nmt.markup.line_ends import BULLET, LIST_MARK, NO_TEXT, line_breaks, put_line_ends_back
from nmt.markup.markup_tokens import BLOCKS, Token, elements
from nmt.markup.tag_writer import restore
from nmt.markup.tags import Marked, parse
from nmt.markup.text_units import Link, Links

LINE_END = "\n"  # what is between the lines of a text without tags

_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_NEW_LINE = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*")
_BREAKS = frozenset(("br", "lb", *BLOCKS))
_CODES = frozenset(("x", "ph", "it", "bpt", "ept", "bx", "ex", "sc", "ec"))
"""Elements of XLIFF and TMX that stand for formatting of another file."""
_SPACE = r"(?:\s|&nbsp;|&#160;){1,9}"
_BAR = re.compile(rf"{_SPACE}\|{_SPACE}(?![^][(){{}}]{{0,200}}[])}}])")  # not in brackets
_KIND = re.compile(r"(?:.*[:_-])?(?:br|lb|pb)", re.IGNORECASE)  # xlf:lb, x-html-br
_NATIVE = re.compile(r"\s*(?:<br\b[^<>]*>|<[\w:]+ val=\"[\r\n]+\" ?/>|\n|\\n)\s*", re.IGNORECASE)


def cut_at_breaks(
    markup: str, form: str, *, at_line_ends: bool = True, is_part: bool = False
) -> tuple[list[Marked], list[str]]:
    """Cut markup at its breaks.

    markup: any; form: of it; at_line_ends: whether these may be breaks; is_part: whether there are
    breaks before or after it.
    Returns the lines with words, and what stays: before the first one, between two, and after the
    last.
    """
    lines, between = list[Marked](), [""]
    tokens = elements(markup, form)
    # An ICU message may go on after what looks like a break.
    breaks = [] if find_message(markup) else _breaks(tokens, form, at_line_ends=at_line_ends)
    line_start = 0
    for start, end in [*breaks, (len(markup), len(markup))]:
        start, end = max(start, line_start), max(end, line_start)  # two breaks may overlap
        line = markup[line_start:start]
        mark = (LIST_MARK if breaks or is_part else BULLET).match(line)
        text = line[mark.end() if mark else 0 :]
        raw = text.strip()
        marked = parse(raw, form, tokens if raw == markup else None)
        if marked.has_words:
            before, _, after = text.partition(marked.raw)
            between[-1] += line[: len(line) - len(text)] + before
            lines.append(marked)
            between.append(after + markup[start:end])
        else:
            between[-1] += markup[line_start:end]
        line_start = end
    return lines, between


def _breaks(tokens: Sequence[Token], form: str, *, at_line_ends: bool) -> list[tuple[int, int]]:
    """Return start and end of each break, in order."""
    shown = _shown(tokens)
    breaks = [(token.start, token.end) for token in tokens if _is_break(token, form)]
    breaks += (bar.span() for bar in _BAR.finditer(shown))
    if at_line_ends:
        breaks += line_breaks(shown, has_layout=form == "html")
    return sorted(breaks)


def _is_break(token: Token, form: str) -> bool:
    if token.kind in ("text", "other") or token.name in _BREAKS:
        return token.name in _BREAKS
    if form == "html" or token.name not in _CODES or token.kind == "close":
        return False
    has = token.attributes()
    if any(_KIND.fullmatch(has.get(name, "")) for name in ("ctype", "type", "subtype")):
        return True
    native = [has.get(name, "") for name in ("equiv-text", "disp")]
    if token.kind == "code":
        native.append(token.raw.partition(">")[2].rpartition("</")[0])
    return any(_NATIVE.fullmatch(html.unescape(html.unescape(text))) for text in native)


def unwrap(markup: str) -> str:
    """Replace the line ends in the text of HTML by spaces."""
    return "".join(
        _NEW_LINE.sub(" ", token.raw) if token.kind == "text" else token.raw
        for token in elements(markup, "html")
    )


def _shown(tokens: Sequence[Token]) -> str:
    """Return markup with something else in place of its tags."""
    return "".join(
        token.raw if token.kind == "text" and token.name != "cdata" else NO_TEXT * len(token.raw)
        for token in tokens
    )


class MarkedLines(NamedTuple):
    """Markup with its tags taken out, line by line."""

    lines: list[Marked]
    between: list[str]  # what stays: before the first line, between two, and after the last
    markup: str  # all of it
    form: str
    written: str = ""
    """The markup with the sign for a shortcut, if that was taken out."""

    @classmethod
    def of(cls, markup: str, form: str, written: str = "") -> MarkedLines:
        """Take the tags out of a line of a text, or of a unit of a document.

        With an ICU message, all of it stays.
        """
        if find_message(markup):
            return cls([parse("", form)], [markup, ""], markup, form, written)
        lines, between = list[Marked](), [""]
        sections = list(_sections(markup, form))
        is_part = len(sections) > 1
        for before, section, is_cdata in sections:
            own_form = "html" if is_cdata else form
            is_literal = is_cdata and html.unescape(section) == section and "<" not in section
            own, (first, *others) = cut_at_breaks(
                section, own_form, at_line_ends=is_literal or not is_cdata, is_part=is_part
            )
            between[-1] += before + first
            between += others
            for line in own if is_literal else ():
                for sign in "<>&":
                    line.spelling.pop(sign, None)
            lines += own
        if not lines and is_part:
            lines, between = [parse("", form)], [*between, ""]
        elif not lines:
            lines, between = [parse(markup, form)], ["", ""]
        return cls(lines, between, markup, form, written)

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process as markup, which is smaller, and may be nested without limit.

        Elements that are each inside the other would be beyond the recursion of pickle.
        """
        return MarkedLines.of, (self.markup, self.form, self.written)

    @property
    def has_words(self) -> bool:
        """Whether there is anything to translate, or a message."""
        line = self.lines[0]  # the only one, unless there is a break
        return (line if line.raw == self.markup else parse(self.markup, self.form)).has_words

    @property
    def text(self) -> str:
        return LINE_END.join(line.text for line in self.lines)

    @property
    def protected(self) -> list[tuple[int, int]]:
        """Where the pieces that must stay as they are begin and end in the text, in order."""
        starts = _starts([line.text for line in self.lines])
        return [
            (index + start, index + end)
            for index, line in zip(starts, self.lines, strict=True)
            for start, end in line.protected
        ]

    def restore(self, translation: str, links: Links, weaker: Links) -> str:
        """Return a translation of so many lines, with the tags; see `tag_writer.restore`."""
        texts = translation.split(LINE_END)
        starts = _starts([line.text for line in self.lines]), _starts(texts)
        found, found_weaker = (_by_line(some, *starts) for some in (links, weaker))
        restored = [self.between[0]]
        for number, (line, text) in enumerate(zip(self.lines, texts, strict=True)):
            markup = restore(line, text, found[number], found_weaker[number])
            if line.has_words and ("\n" in line.raw or "\r" in line.raw):
                shown = [_shown(elements(each, self.form)) for each in (markup, line.raw)]
                markup = put_line_ends_back(markup, *shown)
            restored += [markup, self.between[number + 1]]
        return "".join(restored)


def _sections(markup: str, form: str) -> Iterator[tuple[str, str, bool]]:
    """Yield what stays before each part of XML, its text, and whether that is a CDATA section."""
    before, last = "", 0
    if form == "xml" and _CDATA in markup:
        for token in elements(markup, form):
            if token.name == "cdata":
                yield before, markup[last : token.start], False
                yield _CDATA, token.raw[len(_CDATA) : -len(_CDATA_END)], True
                before, last = _CDATA_END, token.end
    yield before, markup[last:], False


def _starts(lines: Sequence[str]) -> list[int]:
    """Return where each line begins in the text of all."""
    return [0, *accumulate(len(line) + len(LINE_END) for line in lines[:-1])]


def _by_line(links: Links, src_starts: Sequence[int], tgt_starts: Sequence[int]) -> Sequence[Links]:
    """Return the links within each line, by characters of that line."""
    found: list[list[Link]] = [[] for _ in src_starts]
    for src_start, src_end, tgt_start, tgt_end in links:
        line = bisect_right(src_starts, src_start) - 1
        if line == bisect_right(tgt_starts, tgt_start) - 1:
            src, tgt = src_starts[line], tgt_starts[line]
            found[line].append((src_start - src, src_end - src, tgt_start - tgt, tgt_end - tgt))
    return found
