"""Writes a translation with tags, from left to right.

What has no place in the text of the translation, such as a piece that is inserted, never touches a
word that it does not touch in the source.
"""

from __future__ import annotations

import html

from nmt.data.words import is_letter
from nmt.markup.kept_pieces import SIGN
from nmt.markup.tag_layout import CLOSING, OPENING, Layout, Place
from nmt.markup.tags import STANDING, Marked, Node
from nmt.markup.text_units import Links


def restore(marked: Marked, translation: str, links: Links, weaker: Links = ()) -> str:
    """Return a translation of a line's text with the tags of the line.

    Without pieces that must stay as they are, the result without tags is the translation.

    marked: the line; translation: of its text; links: the alignment, by characters of both texts;
    weaker: links of tokens of the source that have none.
    """
    if not marked.has_words:
        return marked.raw
    if not marked.root.children:
        return marked.escape(translation)
    return _Writer(Layout(marked, translation, links, weaker)).write()


class _Writer:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.text = layout.translation
        self.out: list[str] = []
        self.cursor = 0  # in the translation
        self.last = " "  # the last character of text, or of a piece "x"; a space at the beginning
        self.gap = 0  # in `out`: behind all but the tags that have just been opened
        self.is_apart = False  # from the next text or tag that opens, by a space

    def write(self) -> str:
        root = self.layout.marked.root
        waiting: list[tuple[Node, bool, int]] = [(root, False, len(self.text))]
        while waiting:
            node, is_end, limit = waiting.pop()
            if is_end:
                self._text_to(limit)
                self._append(node.closing)
                continue
            place = self.layout.places[node]
            end = self._write_start(node, place) if node is not root else limit
            if node.piece_kind:
                continue
            waiting.append((node, True, end))
            order = sorted(enumerate(node.children), key=lambda numbered: self._position(*numbered))
            waiting += [(child, False, end) for _, child in reversed(order)]
        return "".join(self.out)

    def _position(self, number: int, child: Node) -> tuple[int, int, int]:
        place = self.layout.places[child]
        if child.loose:
            return place.first, -1 if child.loose == "close" else 3, number
        if place.first < place.end:
            return place.first, 2, number
        return place.first, 0 if place.is_after else 1, number

    def _write_start(self, node: Node, place: Place) -> int:
        """Write the text before a node, and its opening; return where its text ends."""
        target = self.layout.target
        if place.first < place.end:
            start, end = target[place.first][0], target[place.end - 1][1]
        elif place.is_after and place.first:
            start = end = target[place.first - 1][1]
        else:
            start = end = target[place.first][0] if place.first < len(target) else len(self.text)
        self._text_to(start)
        self._end_gap()
        if not node.piece_kind:
            self.out.append(node.opening)
            return end
        source = self.layout.marked.text
        if node.piece_kind == STANDING:
            self._stand(node)
        elif self.text[start:end] == source[node.start : node.end]:  # also if both are empty
            self._add_piece(node.opening, end)
        else:
            self._insert(node, end, is_new=start == end)
        return end

    def _stand(self, node: Node) -> None:
        """Write what stands for something, with spaces where the source has them.

        A sign has one beside a letter, too, unless it touches one in the source.
        """
        source = self.layout.marked.text
        before, after = source[node.start - 1 : node.start], source[node.end : node.end + 1]
        is_sign = SIGN.fullmatch(html.unescape(node.opening)) is not None
        is_apart_from_letter = is_sign and not is_letter(before) and is_letter(self.last)
        if is_apart_from_letter or (before.isspace() and not self.last.isspace()):
            self.out.insert(self.gap, " ")
        self._add_piece(node.opening, self.cursor)
        following = self.text[self.cursor : self.cursor + 1]
        is_apart_from_letter = is_sign and not is_letter(after) and is_letter(following)
        is_word = following.strip() != "" and following not in CLOSING
        self.is_apart = is_apart_from_letter or (after.isspace() and is_word)

    def _insert(self, piece: Node, end: int, *, is_new: bool) -> None:
        """Write a piece in place of other text or of none, apart from the words beside it.

        A new one has spaces beside other signs if it has them in the source.
        """
        source = self.layout.marked.text
        touches_previous, touches_next = self.layout.touches(piece)
        has_space = is_new and not source[piece.start - 1 : piece.start].strip()
        needs_space = has_space and bool(self.last.strip()) and self.last not in OPENING
        if not touches_previous and (is_letter(self.last) or needs_space):
            self.out.insert(self.gap, " ")
        self._add_piece(piece.opening, end)
        following = self.text[self.cursor : self.cursor + 1]
        has_space = is_new and not source[piece.end : piece.end + 1].strip()
        needs_space = has_space and bool(following.strip()) and following not in CLOSING
        self.is_apart = not touches_next and (is_letter(following) or needs_space)

    def _append(self, raw: str) -> None:
        self.out.append(raw)
        self.gap = len(self.out)

    def _add_piece(self, raw: str, end: int) -> None:
        self._append(raw)
        self.cursor = max(self.cursor, end)
        self.last = "x"

    def _end_gap(self) -> None:
        """Write the space that stands between a piece and what follows."""
        if self.is_apart:
            self._append(" ")
            self.last = " "
            self.is_apart = False

    def _text_to(self, end: int) -> None:
        if end > self.cursor:
            self._end_gap()
            self._append(self.layout.marked.escape(self.text[self.cursor : end]))
            self.last = self.text[end - 1]
            self.cursor = end
