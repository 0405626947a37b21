"""Tokens of markup: its tags, its texts, and the elements that stay whole.

- A pair is an opening tag and the next closing tag of the same name, unless it would overlap
  another pair.
- Comments, declarations and processing instructions are like tags. So are `<script>`, `<style>` and
  the like with all that they contain, and the native codes of XLIFF and TMX (`<ph>`, `<bpt>` and so
  on).
- Other tags that are written in text (`text_tags`), such as escaped ones, are tags.
- An element that stays as it is is one token.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Container, Iterator
from typing import NamedTuple

from nmt.data.words import MARKS
from nmt.markup.kept_pieces import piece_pattern
from nmt.markup.text_tags import HTML, TEXT_TAG, VOID, text_tags

_RAW_TEXT = frozenset(("script", "style", "textarea"))
"""Elements of HTML whose content is not markup."""
NOT_TEXT = frozenset(("svg", "math", "template", "iframe", "object"))
"""Elements of HTML whose content is not running text."""
_KEPT = frozenset(("code", "kbd", "samp", "var"))
_BLOCKS = tuple(
    "address article aside blockquote details div dl fieldset figcaption figure footer form h1 "
    "h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section table ul".split()
)
_ROWS = ("tbody", "tfoot", "thead")
_ENDED_BY: dict[str, tuple[str, ...]] = {
    "p": _BLOCKS,
    "li": ("li",),
    **dict.fromkeys(("dd", "dt"), ("dd", "dt")),
    **dict.fromkeys(("td", "th"), ("td", "th", "tr", *_ROWS)),
    "tr": ("tr", *_ROWS),
    **dict.fromkeys(_ROWS, _ROWS),
    "option": ("option", "optgroup"),
    **dict.fromkeys(("body", "html"), ()),
}
"""Elements of HTML that need no closing tag, and those whose beginning ends them.

https://html.spec.whatwg.org/multipage/syntax.html#optional-tags"""
BLOCKS = frozenset((*_BLOCKS, *_ROWS, *_ENDED_BY, "caption", "legend", "summary"))
"""Elements of HTML that begin a line of their own, or a cell."""
_NATIVE_CODES = frozenset(("bpt", "ept", "it", "ph", "ut"))
"""Elements of XLIFF and TMX that contain formatting of another file; they have attributes."""
_BEGINNINGS = {"bx": "ex", "bpt": "ept", "sc": "ec", "sm": "em"}
"""Elements of XLIFF and TMX that pair up by an attribute."""
_ENDINGS = {end: begin for begin, end in _BEGINNINGS.items()}
_PAIRED = {*_BEGINNINGS, *_ENDINGS}

_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'=<>`]+))?""")
_TAG = re.compile(
    rf"""</?(?P<name>[^\W\d][\w{MARKS}:.-]*+)(?:\s(?>(?:[^<>"']|"[^"]*"|'[^']*')*)|/)?>"""
    r"""|</?(?P<odd>[^\W\d][^\s<>/}]*+)(?!\})[^<>]*>"""  # with an open quote, for example
)
_DECLARATION = re.compile(r"<![A-Za-z][^<>\[]*(?:\[[^\]]{0,10000}\]\s*)?>|<!\[[^<>]*>")


class Token(NamedTuple):
    """A tag, or the text up to the next one."""

    kind: str
    """text, open, close, empty (a tag without content), other (a comment, ...), or a whole element:
    kept (its text stays as it is) or code (it has no text)."""
    raw: str
    start: int  # in the markup
    name: str = ""  # of an element: small letters in HTML, without a namespace's prefix in XML

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    def attributes(self) -> dict[str, str]:
        """Return the attributes by name, in small letters."""
        raw = html.unescape(self.raw) if self.raw.startswith("&lt;") else self.raw
        tag = _TAG.match(raw)
        after_name = re.sub(r"^</?[^\s<>/]+", "", tag[0]) if tag else ""
        return {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(after_name)}


def tokenize(markup: str, form: str) -> Iterator[Token]:
    """Yield the tags and texts of a line or document, which joined in turn are the whole."""
    is_html = form == "html"
    last: dict[str, int] = {}
    text_start = position = 0
    while (position := markup.find("<", position)) >= 0:
        token = _tag_at(markup, position, last, is_html=is_html)
        if token is None:
            position += 1
            continue
        if text_start < position:
            yield Token("text", markup[text_start:position], text_start)
        yield token
        position = text_start = token.end
        if is_html and token.kind == "open" and token.name in _RAW_TEXT:
            end = last.get(token.name) or _raw_text_end(markup, position, token.name)
            if end < 0:
                last[token.name] = end
            elif end > position:
                yield Token("other", markup[position:end], position)
                position = text_start = end
    if text_start < len(markup):
        yield Token("text", markup[text_start:], text_start)


def _raw_text_end(markup: str, position: int, name: str) -> int:
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(markup, position)
    return end.start() if end else -1


def _end_of(closer: str, markup: str, position: int, last: dict[str, int]) -> int:
    """Return where the next `closer` ends, or 0 if there is none.

    last: where it is last found, so that text with many beginnings is not read as often.
    """
    if closer not in last:
        last[closer] = markup.rfind(closer)
    return markup.index(closer, position) + len(closer) if position <= last[closer] else 0


def _tag_at(markup: str, position: int, last: dict[str, int], *, is_html: bool) -> Token | None:
    """Return the tag that begins at a `<`, or None if it is text."""
    is_after_percent = markup[position - 1 : position] == "%"
    for begin, size, closer in (
        ("<!--", 2 if is_html else 4, "-->"),  # <!--> is whole in HTML
        ("<![CDATA[", 9, "]]>"),
        ("<?php", 5, "?>"),
        ("<?=", 3, "?>"),
        ("<?", 2, ">" if is_html else "?>"),
        ("<%", 2, "%>"),
    ):
        if markup.startswith(begin, position) and not (begin == "<%" and is_after_percent):
            end = _end_of(closer, markup, position + size, last)
            is_cdata = begin == "<![CDATA[" and not is_html
            kind, name = ("text", "cdata") if is_cdata else ("other", "")
            return Token(kind, markup[position:end], position, name) if end else None
    if markup.startswith("<!", position):
        match = _DECLARATION.match(markup, position)
        return Token("other", match[0], position) if match else None
    match = _TAG.match(markup, position)
    if match is None:
        return None
    name = match["name"] or match["odd"]
    if is_after_percent and _is_directive(match, name, last):
        return None
    name = name.lower() if is_html else name.rpartition(":")[2]
    if match[0].startswith("</"):
        return Token("close", match[0], position, name)
    is_empty = match[0].endswith("/>") or (is_html and name in VOID)
    return Token("empty" if is_empty else "open", match[0], position, name)


def _is_directive(tag: re.Match[str], name: str, last: dict[str, int]) -> bool:
    """Tell whether it is a directive such as Ruby's `%<name>s`, unlike `50%<b>d</b>`."""
    piece = piece_pattern().match(tag.string, tag.start() - 1)
    if piece is None or piece.end() <= tag.end() or name in VOID or name in _ENDED_BY:
        return False
    return not (HTML.fullmatch(name) and _end_of(f"</{name}", tag.string, tag.end(), last))


def pair_up(tokens: list[Token], form: str) -> dict[int, int]:
    """Return the index of the closing tag of each opening one that has one; pairs never overlap."""
    pairs: dict[int, int] = {}
    waiting: list[tuple[str, int]] = []
    count: Counter[str] = Counter()
    for index, token in enumerate(tokens):
        opens, closes = partner_keys(token, form)
        if closes and count[closes]:
            key = ""
            while key != closes:  # those in between have no partner
                key, opening = waiting.pop()
                count[key] -= 1
            pairs[opening] = index
        elif opens:
            waiting.append((opens, index))
            count[opens] += 1
    return pairs


def partner_keys(token: Token, form: str) -> tuple[str, str]:
    """Return what a tag opens and closes: its name, or that of a pair by an attribute."""
    if form == "xml" and token.kind in ("empty", "code") and token.name in _PAIRED:
        has = token.attributes()
        number = has.get("startref") or has.get("rid") or has.get("id") or has.get("i") or ""
        if token.name in _BEGINNINGS:
            return f"{token.name} {number}", ""
        return "", f"{_ENDINGS[token.name]} {number}"
    is_escaped = token.raw.startswith("&lt;") and token.name[:1].isalnum()  # no partner of others
    name = f"&{token.name}" if is_escaped else token.name
    return name if token.kind == "open" else "", name if token.kind == "close" else ""


def elements(markup: str, form: str) -> list[Token]:
    """Return the tokens of a line or document. An element that stays as it is is one token."""
    tokens = list(tokenize(markup, form))
    if TEXT_TAG.search(markup):
        tokens = _with_text_tags(tokens, form)
    pairs = pair_up(tokens, form)
    closes = set(pairs.values())
    joined = []
    index = 0
    while index < len(tokens):
        token, last = tokens[index], pairs.get(index)
        kind = _stays_whole(token, form) if last is not None or token.kind == "open" else ""
        if kind and (last is not None or _is_protected(token)):
            last = _implied_end(tokens, pairs, closes, index) if last is None else last
            raw = "".join(inner.raw for inner in tokens[index : last + 1])
            token, index = Token(kind, raw, token.start, token.name), last
        joined.append(token)
        index += 1
    return joined


def _with_text_tags(tokens: list[Token], form: str) -> list[Token]:
    """Part texts at the tags in them. A pair of these is in one and the same element."""
    pairs = pair_up(tokens, form)
    closes = set(pairs.values())
    parted: list[Token] = []
    single: dict[int, str] = {}  # kinds of those without a partner
    within: list[list[int]] = [[]]  # of the tags in each element that is open
    in_stars = [False]  # whether each has an open `**`

    def end_element() -> None:
        numbers = within.pop()
        in_stars.pop()
        for pair in pair_up([parted[number] for number in numbers], form).items():
            for index in pair:
                single.pop(numbers[index], None)

    for index, token in enumerate(tokens):
        if index in pairs:
            within.append([])
            in_stars.append(False)
        elif index in closes:
            end_element()
        last = 0
        is_text = token.kind == "text" and token.name != "cdata"
        for tag in text_tags(token.raw, form, is_in_stars=in_stars[-1]) if is_text else ():
            if last < tag.start:
                text = token.raw[last : tag.start]
                parted.append(token._replace(raw=text, start=token.start + last))
            last = tag.end
            within[-1].append(len(parted))
            if tag.name == "**":
                in_stars[-1] = tag.kind == "open"
            if tag.needs_partner:
                single[len(parted)] = "text"
            elif form == "html" and tag.kind in ("open", "close"):
                single[len(parted)] = "empty"  # a reader sees the tag, which stands for itself
            raw = token.raw[tag.start : last]
            parted.append(Token(tag.kind, raw, token.start + tag.start, tag.name))
        if last < len(token.raw):
            parted.append(token._replace(raw=token.raw[last:], start=token.start + last))
    while within:
        end_element()
    joined: list[Token] = []
    for number, token in enumerate(parted):
        token = token._replace(kind=single[number], name="") if number in single else token
        is_text = token.kind == "text" and not token.name
        if is_text and joined and joined[-1].kind == "text" and not joined[-1].name:
            before = joined.pop()
            token = before._replace(raw=before.raw + token.raw)
        joined.append(token)
    return joined


def _implied_end(
    tokens: list[Token], pairs: dict[int, int], closes: Container[int], index: int
) -> int:
    """Return the index of the last token of an element that has no closing tag."""
    enders = _ENDED_BY.get(tokens[index].name, ())
    position = index + 1
    while position < len(tokens) and position not in closes and tokens[position].name not in enders:
        position = pairs.get(position, position) + 1
    return position - 1


def _stays_whole(token: Token, form: str) -> str:
    """Return the kind of the element with this opening tag: kept, code or "" (any other)."""
    if form == "html" and token.name in _RAW_TEXT | NOT_TEXT:
        return "code"
    has = token.attributes()
    if form == "xml" and token.name in _NATIVE_CODES and has:
        return "code"
    is_code = token.name in _KEPT and has.get("translate") != "yes"
    return "kept" if is_code or _is_protected(token) else ""


def _is_protected(token: Token) -> bool:
    has = token.attributes()
    return (
        has.get("translate", "").lower() == "no"
        or "notranslate" in has.get("class", "").split()
        or has.get("mtype") == "protected"
    )
