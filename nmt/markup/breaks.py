"""Breaks: markup is cut into the lines that it shows, which are translated one by one.

A break is a line end, or a tag such as `<br>` or `<p>`, or in XLIFF and TMX a code that stands for
one. What is between two breaks is a line. Breaks stay, and so do lines without words, and the
spaces and list marks beside a break. A CDATA section begins and ends a line. Its text is HTML.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

from nmt.markup.markup_tokens import BLOCKS, Token, elements
from nmt.markup.tag_writer import restore
from nmt.markup.tags import Marked, MessageParts, parse
from nmt.markup.text_units import Link

LINE_END = "\n"
"""What is between the lines of a text without tags."""

_LINE_ENDS = re.compile(r"[\n\r\u2028\u2029]|&#(?:0*1[03]|[xX]0*[aAdD]);")
_SPACES = r"(?:\s|&nbsp;|&#160;)+"
_SIGN = "[-–—*+•‣◦▪▫●○■□·]"
_BULLET = re.compile(rf"\s*{_SIGN}{_SPACES}")
_LIST_MARK = re.compile(rf"\s*(?:{_SIGN}|\(?(?:\d{{1,3}}(?:\.\d{{1,3}})*[.)]|[A-Za-z]\))){_SPACES}")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_WRAPPED_AT = 40  # characters: shorter lines were hardly wrapped
_ENDS, _CLOSING = ".!?…:;。！？：；", "\"'”’“»›)]}"  # of lines that were hardly wrapped either
_NEW_LINE = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*")
_BREAKS = frozenset(("br", "lb", *BLOCKS))
_CODES = frozenset(("x", "ph", "it", "bpt", "ept", "bx", "ex", "sc", "ec"))
"""Elements of XLIFF and TMX that stand for formatting of another file."""
_KIND = re.compile(r"(?:.*[:_-])?(?:br|lb|pb)", re.IGNORECASE)  # xlf:lb, x-html-br
_NATIVE = re.compile(r"\s*(?:<br\b[^<>]*>|<[\w:]+ val=\"[\r\n]+\" ?/>|\n|\\n)\s*", re.IGNORECASE)


def cut_at_breaks(
    markup: str, form: str, *, at_line_ends: bool = True, is_part: bool = False
) -> tuple[list[Marked], list[str]]:
    """Cut markup at its breaks.

    Args:
        markup: any.
        form: of it.
        at_line_ends: whether these are breaks.
        is_part: whether there are breaks before or after it.

    Returns:
        The lines with words, and what stays: before the first one, between two, and after the last.
    """
    lines, between = list[Marked](), [""]
    breaks = list(_breaks(markup, form, at_line_ends=at_line_ends))
    line_start = 0
    for start, end in [*breaks, (len(markup), len(markup))]:
        line = markup[line_start:start]
        mark = (_LIST_MARK if breaks or is_part else _BULLET).match(line)
        text = line[mark.end() if mark else 0 :]
        marked = parse(text.strip() if breaks or is_part else text, form)
        if marked.has_words:
            before, _, after = text.partition(marked.raw)
            between[-1] += line[: len(line) - len(text)] + before
            lines.append(marked)
            between.append(after + markup[start:end])
        else:
            between[-1] += markup[line_start:end]
        line_start = end
    return lines, between


def _breaks(markup: str, form: str, *, at_line_ends: bool) -> Iterator[tuple[int, int]]:
    """Yield start and end of each break; none beside a damaged ICU message, which may go on."""
    tokens = elements(markup, form)
    if any(token.message and not token.message.branches for token in tokens):
        return
    for token in tokens:
        if _is_break(token, form):
            yield token.start, token.end
        elif at_line_ends and _may_wrap(token):
            for line_end in _LINE_ENDS.finditer(token.raw):
                yield token.start + line_end.start(), token.start + line_end.end()


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


def unwrap(markup: str, form: str, *, everywhere: bool = False) -> str:
    """Replace line ends in text by spaces, if they are only there to make lines shorter.

    A line end is, if a small letter follows, or if it comes after a long line without a stop and no
    list mark follows.

    everywhere: replace all.
    """
    tokens = elements(markup, form)
    texts = [token.raw if _may_wrap(token) else "\0" for token in tokens]
    lines = [line.replace("\0", "").strip() for line in _NEW_LINE.split("".join(texts))]
    wrapped = iter([everywhere or _is_wrapped(*pair) for pair in pairwise(lines)])
    return "".join(
        _NEW_LINE.sub(lambda found: " " if next(wrapped) else found[0], token.raw)
        if _may_wrap(token)
        else token.raw
        for token in tokens
    )


def _may_wrap(token: Token) -> bool:
    return token.kind == "text" and token.name != "cdata"


def _is_wrapped(line: str, following: str) -> bool:
    if not line or not following or _LIST_MARK.match(following):
        return False
    is_long = len(line) >= _WRAPPED_AT and line.rstrip(_CLOSING)[-1:] not in _ENDS
    return is_long or following[0].islower()


@dataclass(frozen=True)
class MarkedLines:
    """Markup with its tags taken out, line by line."""

    lines: list[Marked]
    between: list[str]  # what stays: before the first line, between two, and after the last

    @classmethod
    def of(cls, markup: str, form: str) -> MarkedLines:
        """Take the tags out of a line of a text, or of a unit of a document."""
        lines, between = list[Marked](), [""]
        sections = list(_sections(markup, form))
        for before, section, is_cdata in sections:
            own_form = "html" if is_cdata else form
            is_literal = is_cdata and html.unescape(section) == section and "<" not in section
            own, (first, *others) = cut_at_breaks(
                section,
                own_form,
                at_line_ends=is_literal or not is_cdata,
                is_part=len(sections) > 1,
            )
            between[-1] += before + first
            between += others
            for line in own if is_literal else ():
                line.spelling = {
                    sign: as_ for sign, as_ in line.spelling.items() if sign not in "<>&"
                }
            lines += own
        if lines or len(sections) > 1:
            return cls(lines or [parse("", form)], between if lines else [*between, ""])
        return cls.whole(parse(markup, form))

    @classmethod
    def whole(cls, line: Marked) -> MarkedLines:
        """Return a single line."""
        return cls([line], ["", ""])

    def units(self) -> Iterator[MarkedLines]:
        """Yield the lines, and then all branches of their ICU messages."""
        yield self
        for line in self.lines:
            yield from map(MarkedLines.whole, islice(line.units(), 1, None))

    @property
    def messages(self) -> list[MessageParts]:
        """The ICU messages of the lines."""
        return [message for line in self.lines for message in line.messages]

    @property
    def text(self) -> str:
        """The text without tags."""
        return LINE_END.join(line.text for line in self.lines)

    @property
    def starts(self) -> list[int]:
        """Where each line begins in the text."""
        return _starts([line.text for line in self.lines])

    @property
    def kept(self) -> list[tuple[int, int]]:
        """Where the pieces that must stay as they are begin and end in the text, in order."""
        return [
            (at + start, at + end)
            for at, line in zip(self.starts, self.lines, strict=True)
            for start, end in line.kept
        ]

    def restore(self, translation: str, links: Sequence[Link], weaker: Sequence[Link]) -> str:
        """Return a translation of the text, of as many lines, with the tags.

        See `nmt.markup.tag_writer.restore`.
        """
        texts = translation.split(LINE_END)
        starts = self.starts, _starts(texts)
        found, found_weaker = (_by_line(some, *starts) for some in (links, weaker))
        restored = [self.between[0]]
        for number, (line, text) in enumerate(zip(self.lines, texts, strict=True)):
            restored.append(restore(line, text, found[number], found_weaker[number]))
            restored.append(self.between[number + 1])
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
    return [0, *accumulate(len(line) + len(LINE_END) for line in lines[:-1])]


def _by_line(
    links: Sequence[Link], src_starts: Sequence[int], tgt_starts: Sequence[int]
) -> list[list[Link]]:
    """Return the links within each line, by characters of that line."""
    found: list[list[Link]] = [[] for _ in src_starts]
    for src_start, src_end, tgt_start, tgt_end in links:
        line = bisect_right(src_starts, src_start) - 1
        if line == bisect_right(tgt_starts, tgt_start) - 1:
            src, tgt = src_starts[line], tgt_starts[line]
            found[line].append((src_start - src, src_end - src, tgt_start - tgt, tgt_end - tgt))
    return found
