"""Markup of a line: takes its tags out before translation.

`parse` gives the text without tags, which is translated, and a tree of what was taken out.
`tag_writer.restore` puts it back. No byte is lost: whatever is not a tag, such as the `<` of
`a < b` or a tag without its `>`, is text, and is escaped in the output.

- A pair is an opening tag and the next closing tag of the same name, unless it would overlap
  another pair. A tag without a partner is loose: what it opens reaches to the end of what it is in,
  and what it closes reaches to its start.
- Comments, declarations and processing instructions are kept like tags. So are `<script>`,
  `<style>` and the like with all that they contain, and the native codes of XLIFF and TMX (`<ph>`,
  `<bpt>` and so on).
- An element without text between two spaces, such as an icon, is one thing with all that is in it.
- A piece that must stay as it is stands in the text, and is put back in the place of its
  translation: `<code>` and elements with `translate="no"`, and those of `kept_pieces`.
- Other tags that are written in text (`text_tags`), such as escaped ones, are tags.
- An ICU message (`messages`) stands in the text as a placeholder. Its branches are lines of their
  own.
- XML's CDATA sections are text. Entities are replaced by their characters, and a character that the
  line writes as an entity is written so in the output. Entities for control characters, and
  those of XML that HTML does not know, are kept like tags.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from nmt.data.words import has_letters, on_one_line
from nmt.markup.kept_pieces import PIECE, PIECE_IN_MESSAGE, SIGN
from nmt.markup.messages import MOST_NESTED, NO_TEXT, QUOTED, Message, find_messages
from nmt.markup.text_tags import TEXT_TAG, VOID, text_tags

FORMS = ("html", "xml")

_RAW_TEXT = frozenset(("script", "style", "textarea"))
"""Elements of HTML whose content is not markup."""
_NOT_TEXT = frozenset(("svg", "math", "template", "iframe", "object"))
"""Elements of HTML whose content is not running text."""
_KEPT = frozenset(("code", "kbd", "samp", "var"))
_BLOCKS = (
    *("address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset"),
    *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
    *("hgroup", "hr", "main", "menu", "nav", "ol", "p", "pre", "search", "section", "table", "ul"),
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
    r"""</?(?P<name>[^\W\d][\w:.-]*+)(?:\s(?:[^<>"']|"[^"]*"|'[^']*')*+|/)?>"""
    r"""|</?(?P<odd>[^\W\d][^\s<>/}]*+)(?!\})[^<>]*>"""  # with an open quote, for example
)
_DECLARATION = re.compile(r"<![A-Za-z][^<>\[]*(?:\[[^\]]{0,10000}\]\s*)?>|<!\[[^<>]*>")
_ENTITY_PATTERN = r"(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]{0,31};?)"
_ENTITY = {
    "html": re.compile("&" + _ENTITY_PATTERN),
    "xml": re.compile(rf"&(?:amp;(?=#?\w{{1,31}};))?{_ENTITY_PATTERN}"),  # also of escaped HTML
}
_APOSTROPHE = re.compile("&apos;|&#0{0,9}39;|&#[xX]0{0,9}27;")
_SELECTS_ONE = re.compile(r"(?:\bone|=1)\s*\{\s*$")
_SIGNS = set("&<>\"'")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

STANDING = "standing"
_STANDING = {"html": {"img", "input", "textarea", *_NOT_TEXT}, "xml": {"x", "ph"}}
"""Elements without text that stand for a word or a picture: spaces around them matter."""


@dataclass(frozen=True)
class Token:
    """A tag, or the text up to the next one."""

    kind: str
    """text, open, close, empty (a tag without content), other (a comment, ...), or a whole element:
    kept (its text stays as it is), code (it has no text) or message (of ICU, with its tags)."""
    raw: str
    start: int  # in the markup
    name: str = ""  # of an element: small letters in HTML, without a namespace's prefix in XML
    message: Message | None = None

    @property
    def end(self) -> int:
        """Where the next token begins."""
        return self.start + len(self.raw)

    def attributes(self) -> dict[str, str]:
        """Return the attributes by name, in small letters."""
        raw = html.unescape(self.raw) if self.raw.startswith("&lt;") else self.raw
        tag = _TAG.match(raw)
        after_name = re.sub(r"^</?[^\s<>/]+", "", tag[0]) if tag else ""
        return {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(after_name)}


@dataclass(eq=False)
class Node:
    """What is taken out at one place: a tag, a pair with its content, or a piece that is kept."""

    opening: str  # as it is written; of a piece that is kept, all of it
    start: int  # in the text without tags
    end: int
    closing: str = ""
    loose: str = ""  # of a tag without its partner: open or close
    kept: str = ""  # of a piece that is kept: element, standing, or a group of `PIECE`
    children: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class MessageParts:
    """An ICU message of a line."""

    start: int  # in the markup
    end: int
    node: Node  # what stands for it in the text; its `opening` is the whole message
    parts: list[str | Marked]  # of the frame, and branches


@dataclass
class Marked:
    """A line with its tags taken out."""

    raw: str
    text: str
    root: Node
    spelling: dict[str, str]  # how characters are escaped
    messages: list[MessageParts] = field(default_factory=list)
    is_of_message: bool = False  # whether it has one, or is a branch of one

    def units(self) -> Iterator[Marked]:
        """Yield the line, and then all branches of its messages: what is translated by itself."""
        yield self
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, Marked):
                    yield from part.units()

    @property
    def has_words(self) -> bool:
        """Whether there is a letter besides pieces that must stay as they are."""
        return any(unit.has_own_words for unit in self.units())

    @property
    def has_own_words(self) -> bool:
        """Whether there is one outside the branches of messages."""
        return has_letters(self.text, self.kept)

    @property
    def unchanged(self) -> str:
        """The line as it is, except for branches of messages that have been translated."""
        written, last = "", 0
        for message in self.messages:
            written += self.raw[last : message.start] + message.node.opening
            last = message.end
        return written + self.raw[last:]

    @property
    def kept(self) -> list[tuple[int, int]]:
        """Where the pieces that must stay as they are begin and end in the text, in order."""
        spans, waiting = [], [self.root]
        while waiting:
            node = waiting.pop()
            waiting += node.children
            if node.kept and node.start < node.end:
                spans.append((node.start, node.end))
        return sorted(spans)

    def take_signs_out(self, is_known: Callable[[str], bool]) -> bool:
        """Take those signs and symbols out of the text that a model does not know.

        What it does not know misleads it. Returns whether there are any.
        """
        nodes, unknown = [self.root], list[Node]()
        for node in nodes:
            nodes += node.children
            is_sign = node.kept in ("sign", "symbol")
            if is_sign and not is_known(self.text[node.start : node.end]):
                unknown.append(node)
        if not unknown or not self.has_own_words:
            return False
        unknown.sort(key=lambda node: node.start)
        ends = [node.end for node in unknown]
        removed = [0, *accumulate(node.end - node.start for node in unknown)]
        last, text = 0, ""
        for node in unknown:
            text += self.text[last : node.start]
            last, node.kept = node.end, STANDING
        self.text = text + self.text[last:]
        for node in unknown:
            node.end = node.start
        for node in nodes:
            node.start -= removed[bisect_right(ends, node.start)]
            node.end -= removed[bisect_right(ends, node.end)]
        return True

    def escape(self, text: str) -> str:
        """Write text as the line would."""
        return "".join(self.spelling.get(character, character) for character in text)


def tokenize(markup: str, form: str) -> Iterator[Token]:
    """Yield the tags and texts of a line or document, which joined in turn are the whole."""
    is_html = form == "html"
    last: dict[str, int] = {}
    text_start = at = 0
    while (at := markup.find("<", at)) >= 0:
        token = _tag_at(markup, at, last, is_html=is_html)
        if token is None:
            at += 1
            continue
        if text_start < at:
            yield Token("text", markup[text_start:at], text_start)
        yield token
        at = text_start = token.end
        if is_html and token.kind == "open" and token.name in _RAW_TEXT:
            end = last.get(token.name) or _raw_text_end(markup, at, token.name)
            if end < 0:
                last[token.name] = end
            elif end > at:
                yield Token("other", markup[at:end], at)
                at = text_start = end
    if text_start < len(markup):
        yield Token("text", markup[text_start:], text_start)


def _raw_text_end(markup: str, at: int, name: str) -> int:
    end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(markup, at)
    return end.start() if end else -1


def _end_of(closer: str, markup: str, at: int, last: dict[str, int]) -> int:
    """Return where the next `closer` ends, or 0 if there is none.

    last: where it is last found, so that text with many beginnings is not read as often.
    """
    if closer not in last:
        last[closer] = markup.rfind(closer)
    return markup.index(closer, at) + len(closer) if at <= last[closer] else 0


def _tag_at(markup: str, at: int, last: dict[str, int], *, is_html: bool) -> Token | None:
    """Return the tag that begins at a `<`, or None if it is text."""
    for begin, size, closer in (
        ("<!--", 2 if is_html else 4, "-->"),  # <!--> is whole in HTML
        ("<![CDATA[", 9, "]]>"),
        ("<?php", 5, "?>"),
        ("<?=", 3, "?>"),
        ("<?", 2, ">" if is_html else "?>"),
        ("<%", 2, "%>"),
    ):
        if markup.startswith(begin, at):
            end = _end_of(closer, markup, at + size, last)
            is_cdata = begin == "<![CDATA[" and not is_html
            kind, name = ("text", "cdata") if is_cdata else ("other", "")
            return Token(kind, markup[at:end], at, name) if end else None
    if markup.startswith("<!", at):
        match = _DECLARATION.match(markup, at)
        return Token("other", match[0], at) if match else None
    match = _TAG.match(markup, at)
    if match is None:
        return None
    name = match["name"] or match["odd"]
    name = name.lower() if is_html else name.rpartition(":")[2]
    if match[0].startswith("</"):
        return Token("close", match[0], at, name)
    is_empty = match[0].endswith("/>") or (is_html and name in VOID)
    return Token("empty" if is_empty else "open", match[0], at, name)


def pair_up(tokens: list[Token], form: str) -> dict[int, int]:
    """Return the index of the closing tag of each opening one that has one; pairs never overlap."""
    pairs: dict[int, int] = {}
    waiting: list[tuple[str, int]] = []
    count: Counter[str] = Counter()
    for index, token in enumerate(tokens):
        opens, closes = _keys(token, form)
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


def _keys(token: Token, form: str) -> tuple[str, str]:
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
    """Return the tokens of a line or document.

    An element that stays as it is is one token, and so is an ICU message.
    """
    tokens = list(tokenize(markup, form))
    if TEXT_TAG.search(markup):
        tokens = _with_text_tags(tokens, form)
    pairs = pair_up(tokens, form)
    closes = set(pairs.values())
    joined = []
    index = 0
    while index < len(tokens):
        token, last = tokens[index], pairs.get(index)
        begins = last is not None or token.kind == "open"
        kind = _stays_whole(token, form) if begins else ""
        if kind and (last is not None or _is_protected(token)):
            last = _implied_end(tokens, pairs, closes, index) if last is None else last
            raw = "".join(inner.raw for inner in tokens[index : last + 1])
            token, index = Token(kind, raw, token.start, token.name), last
        joined.append(token)
        index += 1
    return _join_messages(markup, joined, form) if "{" in markup else joined


def _with_text_tags(tokens: list[Token], form: str) -> list[Token]:
    """Part texts at the tags in them. A pair of these is in one and the same element."""
    pairs = pair_up(tokens, form)
    closes = set(pairs.values())
    parted: list[Token] = []
    single: set[int] = set()  # numbers of those that need a partner, and have none
    within: list[list[int]] = [[]]  # of the tags in each element that is open
    in_stars = [False]  # whether each has an open `**`

    def end_element() -> None:
        numbers = within.pop()
        in_stars.pop()
        for pair in pair_up([parted[number] for number in numbers], form).items():
            single.difference_update(numbers[index] for index in pair)

    for index, token in enumerate(tokens):
        if index in pairs:
            within.append([])
            in_stars.append(False)
        elif index in closes:
            end_element()
        last = 0
        is_text = token.kind == "text" and token.name != "cdata"
        found = text_tags(token.raw, form, is_in_stars=in_stars[-1]) if is_text else ()
        for tag in found:
            if last < tag.start:
                text = token.raw[last : tag.start]
                parted.append(replace(token, raw=text, start=token.start + last))
            last = tag.end
            within[-1].append(len(parted))
            if tag.name == "**":
                in_stars[-1] = tag.kind == "open"
            if tag.needs_partner:
                single.add(len(parted))
            raw = token.raw[tag.start : last]
            parted.append(Token(tag.kind, raw, token.start + tag.start, tag.name))
        if last < len(token.raw):
            parted.append(replace(token, raw=token.raw[last:], start=token.start + last))
    while within:
        end_element()
    joined: list[Token] = []
    for number, token in enumerate(parted):
        token = replace(token, kind="text", name="") if number in single else token
        is_text = token.kind == "text" and not token.name
        if is_text and joined and joined[-1].kind == "text" and not joined[-1].name:
            before = joined.pop()
            token = replace(before, raw=before.raw + token.raw)
        joined.append(token)
    return joined


def _join_messages(markup: str, tokens: list[Token], form: str) -> list[Token]:
    """Make one token of each ICU message.

    If one tag of a pair is in one of its branches, and the other is not, it is damaged.
    """
    text = "".join(
        _APOSTROPHE.sub(lambda entity: NO_TEXT * (len(entity[0]) - 1) + "'", token.raw)
        if token.kind == "text" and token.name != "cdata"
        else NO_TEXT * len(token.raw)
        for token in tokens
    )
    messages = deque(find_messages(text))
    if not messages:
        return tokens
    branches = [branch for message in messages for branch in message.branches]
    starts = [start for start, _ in branches]
    divided = set()
    for pair in pair_up(tokens, form).items():
        ends = [tokens[index].start for index in pair]
        numbers = [bisect_right(starts, end) - 1 for end in ends]
        within = [
            branches[number] if number >= 0 and end < branches[number][1] else None
            for number, end in zip(numbers, ends, strict=True)
        ]
        if within[0] != within[1]:
            divided.update(within)
    joined = []
    at = 0  # the end of the last message
    for token in tokens:
        at = max(at, token.start)
        while messages and messages[0].start < token.end:
            message = messages.popleft()
            if not divided.isdisjoint(message.branches):
                message = replace(message, end=token.end, branches=())
            if at < message.start:
                joined.append(replace(token, raw=markup[at : message.start], start=at))
            raw = markup[message.start : message.end]
            joined.append(Token("message", raw, message.start, message=message))
            at = message.end
        if at < token.end:
            joined.append(replace(token, raw=markup[at : token.end], start=at))
    return joined


def _implied_end(
    tokens: list[Token], pairs: dict[int, int], closes: Container[int], index: int
) -> int:
    """Return the index of the last token of an element that has no closing tag."""
    enders = _ENDED_BY.get(tokens[index].name, ())
    at = index + 1
    while at < len(tokens) and at not in closes and tokens[at].name not in enders:
        at = pairs.get(at, at) + 1
    return at - 1


def _stays_whole(token: Token, form: str) -> str:
    """Return the kind of the element with this opening tag: kept, code or "" (any other)."""
    if form == "html" and token.name in _RAW_TEXT | _NOT_TEXT:
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


def parse(markup: str, form: str) -> Marked:
    """Take the tags out of a line.

    Line ends in its text become spaces.

    Args:
        markup: the line.
        form: one of `FORMS`.
    """
    return _Parser(markup, form, 0).parse()


def mark_signs(text: str) -> Marked:
    """Find the signs in a text without tags. Nothing in it is escaped."""
    signs = [Node(sign[0], *sign.span(), kept=sign.lastgroup or "") for sign in SIGN.finditer(text)]
    return Marked(text, text, Node("", 0, len(text), children=signs), {})


class _Parser:
    def __init__(self, markup: str, form: str, level: int) -> None:
        self.markup = markup
        self.form = form
        self.level = level  # of branches of messages
        self.number = "#"  # what stands for it in the text
        self.messages: list[MessageParts] = []
        self.characters: list[str] = []  # of the text
        self.written: list[str] = []  # how each was written
        self.spelling = dict(_ESCAPES)
        self.open = [Node("", 0, 0)]  # from the root to the innermost
        self.raw_spans: dict[Node, tuple[int, int]] = {}  # of elements, in the markup

    def parse(self) -> Marked:
        tokens = elements(self.markup, self.form)
        self.is_of_message = self.level > 0 or any(token.message for token in tokens)
        if self.is_of_message:
            # Those that stay are pieces; others are invented.
            self.spelling |= dict.fromkeys("{}#" if self.level else "{}", "")
        pairs = pair_up(tokens, self.form)
        closes = set(pairs.values())
        for index, token in enumerate(tokens):
            opens, is_closing = _keys(token, self.form)
            if token.kind == "text":
                self._add_text(token, find_pieces=True)
            elif token.message is not None:
                self._add_message(token, token.message)
            elif token.kind == "kept":
                self._add_kept(token)
            elif index in pairs:
                node = self._add(token.raw)
                self.open.append(node)
                self.raw_spans[node] = token.start, tokens[pairs[index]].end
            elif index in closes:
                self._end_loose()
                node = self.open.pop()
                node.end, node.closing = len(self.characters), token.raw
            elif opens:
                node = self._add(token.raw)
                node.loose = "open"
                self.open.append(node)
            elif is_closing:
                around = self.open[-1]
                node = Node("", around.start, len(self.characters), token.raw, "close")
                node.children, around.children = around.children, [node]
            else:
                node = self._add(token.raw)
                if token.name in _STANDING[self.form]:
                    node.kept = STANDING
                elif token.kind == "empty":
                    self.raw_spans[node] = token.start, token.end
        self._end_loose()
        (root,) = self.open
        root.end = len(self.characters)
        text = "".join(self.characters)
        self._join_standing(root, text)
        return Marked(
            self.markup, text, root, self.spelling, self.messages, is_of_message=self.is_of_message
        )

    def _end_loose(self) -> None:
        while self.open[-1].loose:
            self.open.pop().end = len(self.characters)

    def _join_standing(self, root: Node, text: str) -> None:
        """Make one of each element that has no text and stands between two spaces."""
        signs = [at for at, character in enumerate(text) if not character.isspace()]
        waiting = [root]
        while waiting:
            for node in waiting.pop().children:
                around = text[max(0, node.start - 1) : node.start], text[node.end : node.end + 1]
                if bisect_left(signs, node.start) < bisect_left(signs, node.end):
                    waiting.append(node)
                elif node in self.raw_spans and not "".join(around).strip():
                    node.opening, node.closing = self.markup[slice(*self.raw_spans[node])], ""
                    node.children, node.kept = [], STANDING

    def _add(self, raw: str) -> Node:
        here = len(self.characters)
        node = Node(raw, here, here)
        self.open[-1].children.append(node)
        return node

    def _add_message(self, token: Token, message: Message) -> None:
        node = self._add(token.raw)
        node.kept = "placeholder"
        self._add_text(Token("text", f"{{{message.argument}}}", 0), find_pieces=False)
        node.end = len(self.characters)
        if self.level == MOST_NESTED or not message.branches:
            return
        parts: list[str | Marked] = []
        last = message.start
        for start, end in message.branches:
            branch = self.markup[start:end]
            text = branch.strip()
            start += len(branch) - len(branch.lstrip())
            frame = self.markup[last:start]
            parser = _Parser(text, self.form, self.level + 1)
            parser.number = _number_for(frame, text) if message.is_plural else "#"
            parts += [frame, parser.parse()]
            last = start + len(text)
        parts.append(self.markup[last : message.end])
        self.messages.append(MessageParts(message.start, message.end, node, parts))

    def _add_kept(self, token: Token) -> None:
        node = self._add(token.raw)
        node.kept = "element"
        self.open.append(Node("", 0, 0))  # what would be its children is in its `opening`
        for inner in tokenize(token.raw, self.form):
            if inner.kind == "text":
                self._add_text(inner, find_pieces=False)
        self.open.pop()
        node.end = len(self.characters)
        if not "".join(self.characters[node.start :]).strip():
            node.kept = STANDING

    def _add_text(self, token: Token, *, find_pieces: bool) -> None:
        if token.name == "cdata":
            text = on_one_line(token.raw[9:-3])
            self._add_run(list(zip(text, text, strict=True)), find_pieces)
            return
        raw = on_one_line(token.raw)
        run: list[tuple[str, str]] = []  # each character, and how it is written
        last = 0
        for entity in _ENTITY[self.form].finditer(raw):
            run += [(character, character) for character in raw[last : entity.start()]]
            last = entity.end()
            decoded = _decoded(entity[0])
            if self.form == "xml" and entity[0].startswith("&amp;") and decoded != "&":
                decoded = _decoded(decoded)
            is_complete = entity[0].endswith(";")
            if self.form == "xml" and decoded == entity[0] and is_complete:
                decoded = ""  # it may be declared elsewhere
            if not decoded or any(map(_is_control, decoded)):
                self._add_run(run, find_pieces)
                run = []
                self._add(entity[0]).kept = "" if decoded else STANDING
                continue
            if decoded == entity[0]:  # only an ampersand
                run += [(character, character) for character in decoded]
                continue
            run += [(character, "" if at else entity[0]) for at, character in enumerate(decoded)]
            is_sign = decoded in _SIGNS or (len(decoded) == 1 and not decoded.isascii())
            if is_sign and is_complete:
                self.spelling[decoded] = entity[0]
        self._add_run(run + [(character, character) for character in raw[last:]], find_pieces)

    def _add_run(self, run: list[tuple[str, str]], find_pieces: bool) -> None:
        """Add characters without a tag in between, and note the pieces that must stay."""
        if not (find_pieces and self.is_of_message):
            self._add_characters(run, PIECE if find_pieces else None)
            return
        plain: list[tuple[str, str]] = []
        last = 0
        for quoted in QUOTED.finditer("".join(character for character, _ in run)):
            plain += run[last : quoted.start()]
            last = quoted.end()
            raw = "".join(written for _, written in run[quoted.start() : last])
            if quoted[0] == "''":
                plain.append(("'", raw))
                self.spelling["'"] = raw
                continue
            self.spelling["'"] = 2 * run[quoted.start()][1]
            self._add_characters(plain, PIECE_IN_MESSAGE)
            plain = []
            node = self._add(raw)
            node.kept = "placeholder"
            inner = quoted[0][1:].removesuffix("'").replace("''", "'")
            self._add_characters([(character, "") for character in inner], None)
            node.end = len(self.characters)
        self._add_characters(plain + run[last:], PIECE_IN_MESSAGE)

    def _add_characters(self, run: list[tuple[str, str]], pieces: re.Pattern[str] | None) -> None:
        first = len(self.characters)
        self.characters += [character for character, _ in run]
        self.written += [written for _, written in run]
        if pieces is None:
            return
        for piece in pieces.finditer("".join(self.characters[first:])):
            start, end = first + piece.start(), first + piece.end()
            raw = "".join(self.written[start:end])
            kept = piece.lastgroup or ""
            if raw == "#" != self.number and not _touches_word(self.characters, start):
                self.characters[start], kept = self.number, "number"
            self.open[-1].children.append(Node(raw, start, end, kept=kept))


def _number_for(selector: str, text: str) -> str:
    """Return a digit for `#` in a branch: models know the plural of numbers, but not of signs."""
    own = _SELECTS_ONE.search(selector)
    return next((digit for digit in ("1" if own else "") + "57648932" if digit not in text), "#")


def _touches_word(characters: Sequence[str], at: int) -> bool:
    beside = (*characters[max(0, at - 1) : at], *characters[at + 1 : at + 2])
    return any(map(str.isalnum, beside))


def _decoded(entity: str) -> str:
    try:
        return html.unescape(entity)
    except ValueError:  # a number of thousands of digits
        return "\ufffd"  # as any number is that is too large


def _is_control(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
