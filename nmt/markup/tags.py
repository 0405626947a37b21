"""Markup of a line: takes its tags out before translation.

`parse` gives the text without tags, which is translated, and a tree of what was taken out.
`tag_writer.restore` puts it back. No byte is lost: whatever is not a tag, such as the `<` of
`a < b`, is text, and is escaped in the output. A tag without a partner is loose. An element without
text between two spaces, such as an icon, is one thing with all that is in it.

A piece that must stay as it is (`<code>`, `translate="no"`, `kept_pieces`) stands in the text, and
comes back in the place of its translation. An ICU message (`messages`) is a placeholder, and its
branches are lines. XML's CDATA sections are text. Entities are replaced by their characters, and
come back. Those of control characters, and of XML that HTML does not know, are kept like tags.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from nmt.data.words import has_letters, is_in_word, on_one_line
from nmt.markup.kept_pieces import SIGN, piece_in_message_pattern, piece_pattern
from nmt.markup.markup_tokens import NOT_TEXT, Token, elements, pair_up, partner_keys, tokenize
from nmt.markup.messages import MOST_NESTED, QUOTED, Message

_ENTITY_PATTERN = r"(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]{0,31};?)"
_ENTITY = {
    "html": re.compile("&" + _ENTITY_PATTERN),
    "xml": re.compile(rf"&(?:amp;(?=#?\w{{1,31}};))?{_ENTITY_PATTERN}"),  # also of escaped HTML
}
_SELECTS_ONE = re.compile(r"(?:\bone|=1)\s*\{\s*$")
_SIGNS = set("&<>\"'")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

STANDING = "standing"
_STANDING = {"html": {"img", "input", "textarea", *NOT_TEXT}, "xml": {"x", "ph"}}
"""Elements without text that stand for a word or a picture: spaces around them matter."""


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
    parts: list[str | Marked] = field(default_factory=list)  # of a message: its frame and branches

    def walk(self) -> Iterator[Node]:
        """Yield the node and all that are in it, in the order of the text."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


@dataclass
class Marked:
    """A line with its tags taken out."""

    raw: str
    text: str
    root: Node
    spelling: dict[str, str]  # how characters are escaped
    frame: list[str | Node] = field(default_factory=list)  # its ICU messages, and what is between
    is_of_message: bool = False  # whether it has one, or is a branch of one

    @property
    def messages(self) -> list[Node]:
        return [part for part in self.frame if isinstance(part, Node)]

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
        return "".join(part if isinstance(part, str) else part.opening for part in self.frame)

    @property
    def kept(self) -> list[tuple[int, int]]:
        """Where the pieces that must stay as they are begin and end in the text, in order."""
        nodes = self.root.walk()
        return [(node.start, node.end) for node in nodes if node.kept and node.start < node.end]

    def take_signs_out(self, is_known: Callable[[str], bool]) -> bool:
        """Take those signs and symbols out of the text that a model does not know.

        What it does not know misleads it. Returns whether there are any.
        """
        nodes = list(self.root.walk())
        signs = (node for node in nodes if node.kept in ("sign", "symbol"))
        unknown = [node for node in signs if not is_known(self.text[node.start : node.end])]
        if not unknown or not self.has_own_words:
            return False
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


def parse(markup: str, form: str) -> Marked:
    """Take the tags out of a line.

    Line ends in its text become spaces.

    markup: the line; form: one of `FORMS`.
    """
    return _Parser(markup, form, 0).parse()


def mark_signs(text: str) -> Marked:
    """Find the signs in a text without tags. Nothing in it is escaped."""
    signs = [Node(sign[0], *sign.span(), kept=sign.lastgroup or "") for sign in SIGN.finditer(text)]
    return Marked(text, text, Node("", 0, len(text), children=signs), {}, [text])


class _Parser:
    def __init__(self, markup: str, form: str, level: int) -> None:
        self.markup = markup
        self.form = form
        self.level = level  # of branches of messages
        self.number = "#"  # what stands for it in the text
        self.frame: list[str | Node] = []
        self.message_end = 0  # of the last one, in the markup
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
            opens, is_closing = partner_keys(token, self.form)
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
        self.frame.append(self.markup[self.message_end :])
        return Marked(self.markup, text, root, self.spelling, self.frame, self.is_of_message)

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
        self.frame += [self.markup[self.message_end : message.start], node]
        self.message_end, last = message.end, message.start
        for start, end in message.branches:
            branch = self.markup[start:end]
            text = branch.strip()
            start += len(branch) - len(branch.lstrip())
            frame = self.markup[last:start]
            parser = _Parser(text, self.form, self.level + 1)
            parser.number = _number_for(frame, text) if message.is_plural else "#"
            node.parts += [frame, parser.parse()]
            last = start + len(text)
        node.parts.append(self.markup[last : message.end])

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
            self._add_characters(run, piece_pattern() if find_pieces else None)
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
            self._add_characters(plain, piece_in_message_pattern())
            plain = []
            node = self._add(raw)
            node.kept = "placeholder"
            inner = quoted[0][1:].removesuffix("'").replace("''", "'")
            self._add_characters([(character, "") for character in inner], None)
            node.end = len(self.characters)
        self._add_characters(plain + run[last:], piece_in_message_pattern())

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
    return any(map(is_in_word, beside))


def _decoded(entity: str) -> str:
    try:
        return html.unescape(entity)
    except ValueError:  # a number of thousands of digits
        return "\ufffd"  # as any number is that is too large


def _is_control(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
