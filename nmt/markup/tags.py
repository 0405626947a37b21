"""Markup of a line: takes its tags out before translation.

`parse` gives the text without tags, which is translated, and a tree of what was taken out.
`tag_writer.restore` puts it back. No byte is lost: whatever is not a tag, such as the `<` of
`a < b`, is text, and is escaped in the output. A tag without a partner is loose. An element without
text between two spaces, such as an icon, is one thing with all that is in it.

A piece that must stay as it is (`<code>`, `translate="no"`, `kept_pieces`) stands in the text, and
comes back in the place of its translation. XML's CDATA sections are text. Entities are replaced by
their characters, and come back. Those of control characters, and of XML that HTML does not know,
are kept like tags.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest

from nmt.data.words import has_letters, on_one_line
from nmt.markup.kept_pieces import SIGN, find_message, piece_pattern
from nmt.markup.markup_tokens import NOT_TEXT, Token, elements, pair_up, partner_keys, tokenize

_ENTITY_PATTERN = r"(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]{0,31};?)"
_ENTITY = {
    "html": re.compile("&" + _ENTITY_PATTERN),
    "xml": re.compile(rf"&(?:amp;(?=#?\w{{1,31}};))?{_ENTITY_PATTERN}"),  # also of escaped HTML
}
_SIGNS = set("&<>\"'")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

STANDING = "standing"
_STANDING = {"html": {"img", "input", "textarea", *NOT_TEXT}, "xml": {"x", "ph"}}
"""Elements without text that stand for a word or a picture: spaces around them matter."""


@dataclass(eq=False, slots=True)
class Node:
    """What is taken out at one place: a tag, a pair with its content, or a piece that is kept."""

    opening: str  # as it is written; of a piece that is kept, all of it
    start: int  # in the text without tags
    end: int
    closing: str = ""
    loose: str = ""  # of a tag without its partner: open or close
    piece_kind: str = ""  # of a piece that is kept: element, standing, or a group of `PIECE`
    children: list[Node] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Yield the node and all that are in it, in the order of the text."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


@dataclass(slots=True)
class Marked:
    """A line with its tags taken out."""

    raw: str
    text: str
    root: Node
    spelling: dict[str, str]  # how characters are escaped

    @property
    def has_words(self) -> bool:
        """Whether there is a letter besides pieces that must stay as they are, or a message."""
        return has_letters(self.text, self.protected) or find_message(self.raw) is not None

    @property
    def protected(self) -> list[tuple[int, int]]:
        """Where the pieces that must stay as they are begin and end in the text, in order."""
        pieces = (node for node in self.root.walk() if node.piece_kind)
        return [(node.start, node.end) for node in pieces if node.start < node.end]

    def take_signs_out(self, is_known: Callable[[str], bool]) -> bool:
        """Take those signs and symbols out of the text that a model does not know.

        What it does not know misleads it. Returns whether there are any.
        """
        nodes = list(self.root.walk())
        signs = (node for node in nodes if node.piece_kind in ("sign", "symbol"))
        unknown = [node for node in signs if not is_known(self.text[node.start : node.end])]
        if not unknown or not self.has_words:
            return False
        ends = [node.end for node in unknown]
        removed = [0, *accumulate(node.end - node.start for node in unknown)]
        last, text = 0, ""
        for node in unknown:
            text += self.text[last : node.start]
            last, node.end, node.piece_kind = node.end, node.start, STANDING
        self.text = text + self.text[last:]
        for node in nodes:
            node.start -= removed[bisect_right(ends, node.start)]
            node.end -= removed[bisect_right(ends, node.end)]
        return True

    def escape(self, text: str) -> str:
        """Write text as the line would."""
        return "".join(self.spelling.get(character, character) for character in text)


def parse(markup: str, form: str, tokens: list[Token] | None = None) -> Marked:
    """Take the tags out of a line.

    Line ends in its text become spaces.

    markup: the line; form: one of `FORMS`; tokens: its elements, if they are known.
    """
    return _Parser(markup, form).parse(elements(markup, form) if tokens is None else tokens)


def mark_signs(text: str) -> Marked:
    """Find the signs in a text without tags. Nothing in it is escaped."""
    found = SIGN.finditer(text)
    signs = [Node(sign[0], *sign.span(), piece_kind=sign.lastgroup or "") for sign in found]
    return Marked(text, text, Node("", 0, len(text), children=signs), {})


class _Parser:
    def __init__(self, markup: str, form: str) -> None:
        self.markup = markup
        self.form = form
        self.characters: list[str] = []  # of the text
        self.spelling = dict(_ESCAPES)
        self.open = [Node("", 0, 0)]  # from the root to the innermost
        self.raw_spans: dict[Node, tuple[int, int]] = {}  # of elements, in the markup

    def parse(self, tokens: list[Token]) -> Marked:
        pairs = pair_up(tokens, self.form)
        closes = set(pairs.values())
        for index, token in enumerate(tokens):
            opens, is_closing = partner_keys(token, self.form)
            if token.kind == "text":
                self._add_text(token, find_pieces=True)
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
                    node.piece_kind = STANDING
                elif token.kind == "empty":
                    self.raw_spans[node] = token.start, token.end
        self._end_loose()
        (root,) = self.open
        root.end = len(self.characters)
        text = "".join(self.characters)
        self._join_standing(root, text)
        return Marked(self.markup, text, root, self.spelling)

    def _end_loose(self) -> None:
        while self.open[-1].loose:
            self.open.pop().end = len(self.characters)

    def _join_standing(self, root: Node, text: str) -> None:
        """Make one of each element that has no text and stands between two spaces."""
        signs = [index for index, character in enumerate(text) if not character.isspace()]
        waiting = [root]
        while waiting:
            for node in waiting.pop().children:
                around = text[max(0, node.start - 1) : node.start], text[node.end : node.end + 1]
                if bisect_left(signs, node.start) < bisect_left(signs, node.end):
                    waiting.append(node)
                elif node in self.raw_spans and not "".join(around).strip():
                    node.opening, node.closing = self.markup[slice(*self.raw_spans[node])], ""
                    node.children, node.piece_kind = [], STANDING

    def _add(self, raw: str) -> Node:
        here = len(self.characters)
        node = Node(raw, here, here)
        self.open[-1].children.append(node)
        return node

    def _add_kept(self, token: Token) -> None:
        node = self._add(token.raw)
        node.piece_kind = "element"
        self.open.append(Node("", 0, 0))  # what would be its children is in its `opening`
        for inner in tokenize(token.raw, self.form):
            if inner.kind == "text":
                self._add_text(inner, find_pieces=False)
        self.open.pop()
        node.end = len(self.characters)
        if not "".join(self.characters[node.start :]).strip():
            node.piece_kind = STANDING

    def _add_text(self, token: Token, *, find_pieces: bool) -> None:
        if token.name == "cdata":
            text = on_one_line(token.raw[9:-3])
            self._add_run(list(zip(text, text, strict=True)), find_pieces)
            return
        raw = on_one_line(token.raw)
        run: list[tuple[str, str]] = []  # each character, and how it is written
        last = 0
        for entity in _ENTITY[self.form].finditer(raw):
            decoded = _decoded(entity[0])
            if self.form == "xml" and entity[0].startswith("&amp;") and decoded != "&":
                decoded = _decoded(decoded)
            is_complete = entity[0].endswith(";")
            if self.form == "xml" and decoded == entity[0] and is_complete:
                decoded = ""  # it may be declared elsewhere
            if decoded == entity[0]:  # only an ampersand
                continue
            run += [(character, character) for character in raw[last : entity.start()]]
            last = entity.end()
            if not decoded or any(map(_is_control, decoded)):
                self._add_run(run, find_pieces)
                run = []
                self._add(entity[0]).piece_kind = "" if decoded else STANDING
                continue
            run += zip_longest(decoded, [entity[0]], fillvalue="")
            if (decoded in _SIGNS or (len(decoded) == 1 and not decoded.isascii())) and is_complete:
                self.spelling[decoded] = entity[0]
        self._add_run(run + [(character, character) for character in raw[last:]], find_pieces)

    def _add_run(self, run: list[tuple[str, str]], find_pieces: bool) -> None:
        """Add characters without a tag in between, and note the pieces that must stay."""
        first = len(self.characters)
        self.characters += [character for character, _ in run]
        if not find_pieces:
            return
        for piece in piece_pattern().finditer("".join(self.characters[first:])):
            raw = "".join(written for _, written in run[slice(*piece.span())])
            start, end = first + piece.start(), first + piece.end()
            self.open[-1].children.append(Node(raw, start, end, piece_kind=piece.lastgroup or ""))


def _decoded(entity: str) -> str:
    try:
        return html.unescape(entity)
    except ValueError:  # a number of thousands of digits
        return "\ufffd"  # as any number is that is too large


def _is_control(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
